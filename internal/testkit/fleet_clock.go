package testkit

import (
	"sync/atomic"
	"testing"
	"time"

	"stint"
)

// CheckCorrectedClock starts nodes, in a bubble, with a store whose clock is a day ahead while keys
// are used up, and is then corrected. No key may be denied for longer than the period of the limit,
// plus the difference that clocks may have and the time that nodes remember denials.
func CheckCorrectedClock[N Node](t *testing.T, start func(clock func() stint.Instant) *Fleet[N], take func(stint.Key, *stint.Limit, uint32) stint.Take) {
	t.Helper()
	const per, known = 20 * time.Second, 7 * time.Second
	var ahead atomic.Int64
	f := start(func() stint.Instant { return stint.At(time.Now().Add(time.Duration(ahead.Load()))) })
	limits := map[stint.Key]*stint.Limit{}
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket},
		{Algorithm: stint.TokenBucket, Step: true},
		{Algorithm: stint.LeakyBucket, Burst: 399},
		{},
		{FromFirst: true},
		{CarryDebt: true},
		{Algorithm: stint.SlidingLog},
		{Algorithm: stint.SlidingWindow, Blocks: 10},
	} {
		spec.Requests, spec.Per = 400, per
		limit := stint.MustLimit(spec)
		limits[stint.Key(limit.Algorithm().String()+" "+time.Duration(len(limits)).String())] = limit
	}
	use := func(most int) {
		for key, limit := range limits {
			for i := range most {
				f.Decide(t, i%len(f.Nodes), take(key, limit, 1))
			}
		}
	}
	use(20)
	ahead.Store(int64(24 * time.Hour))
	for range 30 { // nodes learn the store's time, and use up the limit
		time.Sleep(20 * time.Millisecond) // by the clock of the bubble
		use(60)
	}
	ahead.Store(0)
	corrected := time.Now()
	type asker struct {
		key  stint.Key
		node int
	}
	denied := map[asker]bool{}
	for key := range limits {
		for node := range f.Nodes {
			denied[asker{key, node}] = true
		}
	}
	for len(denied) > 0 && time.Since(corrected) < 2*per+known {
		time.Sleep(time.Second) // by the clock of the bubble
		for a := range denied {
			if !f.Decide(t, a.node, take(a.key, limits[a.key], 1))[0].Allowed {
				continue
			}
			delete(denied, a)
			if wait := time.Since(corrected); wait > per+known {
				t.Errorf("%s: node %d was denied for %v after the clock was right", a.key, a.node, wait)
			}
		}
	}
	for a := range denied {
		t.Errorf("%s: node %d is denied %v after the clock was right", a.key, a.node, time.Since(corrected))
	}
}
