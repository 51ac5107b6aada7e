package stint_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stint"
)

// debtModel counts the remaining debt window after window.
type debtModel struct {
	per, requests int64
	window, used  int64
}

func (m *debtModel) turn(now int64) {
	for ; m.window < now/m.per; m.window++ {
		m.used = max(0, m.used-m.requests)
	}
}

// A window that carries its debt has it worked off by those that follow.
func TestCarryDebt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		requests := 1 + r.Uint32N(20)
		limit := stint.MustLimit(stint.Spec{Requests: requests, Per: time.Second, CarryDebt: true})
		m := &debtModel{per: 1_000_000, requests: int64(requests), window: 1000}
		var st stint.State
		now := int64(1000 * 1_000_000)
		for step := range 60 {
			now += r.Int64N(1_500_000)
			m.turn(now)
			cost := r.Int64N(2 * int64(requests))
			var d stint.Decision
			if r.IntN(3) == 0 {
				cost *= r.Int64N(6)
				d = limit.Force(&st, stint.Instant(now), uint64(cost))
				m.used += cost
			} else if d = limit.Take(&st, stint.Instant(now), uint64(cost)); d.Allowed {
				m.used += cost
			} else if wait := d.RetryAfter.Microseconds(); d.RetryAfter != stint.Never {
				after := *m
				after.turn(now + wait)
				before := *m
				before.turn(now + wait - 1)
				if after.used+cost > m.requests || before.used+cost <= m.requests {
					t.Fatalf("step %d: %+v, with %d used", step, d, m.used)
				}
			}
			if d.Remaining != max(0, m.requests-m.used) || d.Debt != max(0, m.used-m.requests) || d.ResetAfter.Microseconds() != 1_000_000-now%1_000_000 {
				t.Fatalf("step %d: %+v, with %d used of %d", step, d, m.used, m.requests)
			}
			if fresh := m.used <= 0; limit.Untouched(&st, stint.Instant(now)) != fresh {
				t.Fatalf("step %d: fresh is %v, with %d used", step, !fresh, m.used)
			}
		}
	}
}

// A node that received a decision continues exactly like the node that made it.
func TestSaid(t *testing.T) {
	for _, limit := range []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 7, Per: time.Second, Burst: 20}),
		stint.MustLimit(stint.Spec{Requests: 20, Per: time.Second, CarryDebt: true}),
		stint.MustLimit(stint.Spec{Requests: 20, Per: time.Second}),
	} {
		r := rand.New(rand.NewPCG(3, 4))
		var st stint.State
		now := stint.Instant(1_000_000_000)
		for range 2000 {
			now += stint.Instant(r.Int64N(300_000))
			var d stint.Decision
			switch cost := r.Uint64N(6); r.IntN(4) {
			case 0:
				d = limit.Refund(&st, now, cost, nil)
			case 1:
				if limit.Spec().CarryDebt || limit.Algorithm() == stint.TokenBucket {
					cost *= 5
				} else if used := limit.Test(&st, now, 0); int64(cost) > used.Remaining {
					cost = 0
				}
				d = limit.Force(&st, now, cost)
			default:
				d = limit.Take(&st, now, cost)
			}
			said := limit.ForStores().StateFromDecision(&d)
			for _, later := range []stint.Instant{0, 1, 100_000, 1_000_000, 5_000_000} {
				for _, cost := range []uint64{0, 1, 7, 20} {
					if got, want := limit.Test(&said, now+later, cost), limit.Test(&st, now+later, cost); got != want {
						t.Fatalf("%v: after %+v, %d us later, of %d: %+v, want %+v", limit.Algorithm(), d, later, cost, got, want)
					}
				}
			}
		}
	}
}

// Which limits nodes can count apart.
func TestMergeable(t *testing.T) {
	for _, test := range []struct {
		spec stint.Spec
		want bool
	}{
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second}, true},
		{stint.Spec{Requests: 1, Per: time.Second}, true},
		{stint.Spec{Requests: 1, Per: time.Second, CarryDebt: true}, true},
		{stint.Spec{Requests: 0, Per: time.Second}, false},
		{stint.Spec{Requests: 1, Per: time.Second, FromFirst: true}, false},
		{stint.Spec{Requests: 1, Calendar: stint.Day}, false},
		{stint.Spec{Requests: 1, Per: time.Second, Overdraw: true}, false},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Step: true}, false},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Reserve: true}, false},
		{stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: time.Second}, false},
	} {
		if got := stint.MustLimit(test.spec).ForStores().Mergeable(); got != test.want {
			t.Errorf("%+v: %v", test.spec, got)
		}
	}
	for _, spec := range []stint.Spec{{Requests: 1, Calendar: stint.Day, CarryDebt: true}, {Requests: 1, Per: time.Second, FromFirst: true, CarryDebt: true}, {Algorithm: stint.SlidingLog, Requests: 1, Per: time.Second, CarryDebt: true}} {
		if _, err := stint.NewLimit(spec); err == nil {
			t.Errorf("%+v is accepted", spec)
		}
	}
}
