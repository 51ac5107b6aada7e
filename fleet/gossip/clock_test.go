package gossip_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
)

// What nodes counted whose clocks were a day ahead is denied no longer than the period of the
// limit: by themselves once they are right, and by a node that was right and hears of it, also one
// that joins.
func TestClockCorrected(t *testing.T) {
	const per, day = 20 * time.Second, 24 * time.Hour
	for name, test := range map[string]struct {
		ahead, later []time.Duration // of two nodes, before and after
		join         bool
	}{
		"both are set right":       {[]time.Duration{day, day}, []time.Duration{0, 0}, false},
		"one is set right":         {[]time.Duration{day, 0}, []time.Duration{0, 0}, false},
		"one stays wrong":          {[]time.Duration{day, 0}, []time.Duration{day, 0}, false},
		"a third one hears of two": {[]time.Duration{day, day}, []time.Duration{day, day}, true},
	} {
		for _, spec := range []stint.Spec{
			{Algorithm: stint.TokenBucket},
			{Algorithm: stint.TokenBucket, Step: true},
			{Algorithm: stint.LeakyBucket, Burst: 99},
			{},
			{CarryDebt: true},
			{FromFirst: true},
			{Algorithm: stint.SlidingLog},
			{Algorithm: stint.SlidingWindow, Blocks: 10},
		} {
			spec.Requests, spec.Per = 100, per
			limit := stint.MustLimit(spec)
			f := newFleet(t, 1, 2)
			copy(f.clocks, test.ahead)
			for i := range 400 {
				f.take(i%2, stint.Take{Key: "a", Limit: limit, Cost: 1})
				f.run(10 * time.Millisecond)
			}
			copy(f.clocks, test.later)
			if test.join {
				f.add(gossip.NewNode(gossip.Options{Seed: 77}))
			}
			right := f.now
			denied := map[int]bool{}
			for i := range f.nodes {
				denied[i] = true
			}
			for len(denied) > 0 && f.now.Sub(right) < 3*per {
				f.run(time.Second)
				for i := range denied {
					if f.take(i, stint.Take{Key: "a", Limit: limit, Cost: 1}) {
						delete(denied, i)
					}
				}
			}
			if wait := f.now.Sub(right); wait > per+per/10+5*time.Second {
				t.Errorf("%s, %+v: denied for %v", name, spec, wait)
			}
		}
	}
}
