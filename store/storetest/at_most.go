package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"stint"
)

// atMost: a take of at most some units is charged what is there, and denied only if nothing is;
// takes that are decided as one are charged one number.
func atMost(t *testing.T, o Options) {
	eachVariant(t, o, 10, func(s tester, limit *stint.Limit) {
		take := func(key stint.Key, most uint32) stint.Take {
			return stint.Take{Key: key, Limit: limit, Cost: most, Op: stint.AskAtMost}
		}
		for i, step := range []struct {
			takes   []stint.Take
			charged uint32
			left    []int64
		}{
			{[]stint.Take{take("a", 0)}, 0, []int64{10}},
			{[]stint.Take{take("a", 4)}, 4, []int64{6}},
			{[]stint.Take{take("a", 9), take("b", 7)}, 6, []int64{0, 4}},
			{[]stint.Take{take("b", 2), take("a", 3)}, 0, []int64{4, 0}},
			{[]stint.Take{take("b", stint.MaxCost)}, 4, []int64{0}},
		} {
			for n, d := range s.decide(noon, step.takes...) {
				if d.Allowed != (i == 0 || d.Remaining+int64(d.Charged) > 0) || d.Charged != step.charged || d.Remaining != step.left[n] {
					s.Fatalf("step %d, take %d: %+v", i, n, d)
				}
			}
		}
		if d, one := s.decide(noon, take("a", 5))[0], s.take(noon, "a", limit, 1); d != one {
			s.Fatalf("denied as %+v, and 1 unit as %+v", d, one)
		}
	})
	t.Run("contention", func(t *testing.T) {
		s, limit := start(t, o), stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 300, Per: stint.MaxPer})
		var charged atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				x, y := stint.Take{Key: "x", Limit: limit, Cost: 7, Op: stint.AskAtMost}, stint.Take{Key: "y", Limit: limit, Cost: 11, Op: stint.AskAtMost}
				call := stint.Call{Takes: []stint.Take{x, y}}
				for passed := true; passed; passed = call.Results[0].Charged > 0 {
					if err := s.Decide(context.Background(), &call); err != nil || call.Results[0].Charged != call.Results[1].Charged {
						s.Errorf("%+v, %v", call.Results, err)
						return
					}
					charged.Add(int64(call.Results[0].Charged))
				}
			})
		}
		wg.Wait()
		if n := charged.Load(); n > 300 || n < 300 && !o.Scattered {
			t.Errorf("%d units charged of 300", n)
		}
	})
}
