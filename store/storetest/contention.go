package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"stint"
)

const goroutines = 64

// contention: of many tries by 64 goroutines on one key exactly the limit passes, and all forced
// takes and refunds of many goroutines are counted.
func contention(t *testing.T, o Options) {
	rounds, tries, limit, forced := *roundsFlag, *triesFlag, 1000, 10
	if o.Slow {
		rounds, tries = max(1, rounds/10), tries/10
	}
	if testing.Short() {
		tries, limit, forced = tries/3, limit/3, forced/3
	}
	eachVariant(t, o, uint32(limit), func(s tester, l *stint.Limit) {
		for range rounds {
			s = start(s.TB, o)
			passed := s.parallel(tries/goroutines, stint.Take{Key: "hot", Limit: l, Cost: 1})
			if want := int64(min(limit, tries/goroutines*goroutines)); passed != want {
				s.Fatalf("%d passed, want %d", passed, want)
			}
			s.parallel(2*forced, stint.Take{Key: "hot", Limit: l, Cost: 3, Op: stint.Refund})
			if d := s.peek(noon, "hot", l); d.Remaining != int64(limit) {
				s.Fatalf("after all was given back: %+v", d)
			}
			s.parallel(forced, stint.Take{Key: "hot", Limit: l, Cost: 1, Op: stint.Force})
			if d := s.peek(noon, "hot", l); d.Remaining != int64(limit-forced*goroutines) {
				s.Fatalf("after %d forced takes: %+v", forced*goroutines, d)
			}
		}
	})
}

// parallel decides the same take in many goroutines, times times in each, and returns how many
// passed.
func (s tester) parallel(times int, take stint.Take) int64 {
	s.Helper()
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			call := stint.Call{At: noon, Takes: []stint.Take{take}}
			for range times {
				if err := s.Decide(context.Background(), &call); err != nil {
					s.Error(err)
					return
				}
				if call.Results[0].Allowed {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return passed.Load()
}
