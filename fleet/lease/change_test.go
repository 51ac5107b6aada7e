package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"stint"
)

// terms are those of a rule with a limit.
func terms(mode stint.Coordination, limit *stint.Limit) *stint.Terms {
	return &stint.Terms{Domain: "api", Rule: "api/user", Limit: limit, Coordination: mode}
}

// under is a take under the terms of a rule.
func under(t *stint.Terms, cost uint32) stint.Take {
	return stint.Take{Key: "a", Limit: t.Limit, Cost: cost, Handling: &stint.Handling{Terms: t}}
}

// If a key's rule is no longer leased, or has other numbers, the node returns its units at once,
// and no later message has the old numbers. If the rule stays, so do the units.
func TestChange(t *testing.T) {
	small := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second, Burst: 600})
	for _, test := range []struct {
		name string
		to   *stint.Terms
		home bool
	}{
		{"strict", terms(stint.Strict, fast), true},
		{"other numbers", terms(stint.Leased, small), true},
		{"the same", terms(stint.Leased, fast), false},
		{"no rule any more", &stint.Terms{Domain: "api", Rule: "api/other", Limit: fast, Coordination: stint.Leased}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, old := start(t, 1), terms(stint.Leased, fast)
				for range 300 {
					pass(time.Millisecond)
					f.Decide(t, 0, under(old, 1))
				}
				before := f.Nodes[0].Held(new(under(old, 0)))
				if before == 0 {
					t.Fatal("nothing is held")
				}
				f.Nodes[0].Change(context.Background(), []*stint.Terms{test.to})()
				if held := f.Nodes[0].Held(new(under(old, 0))); (held == 0) != test.home {
					t.Errorf("%d of %d are held after the change", held, before)
				}
				if !test.home {
					return
				}
				calls := f.Store.Calls.Load()
				pass(5 * time.Second)
				if n := f.Store.Calls.Load() - calls; n > 5 { // it looks whether the store is there
					t.Errorf("%d calls about a key that is let go of", n)
				}
				if d := f.Decide(t, 0, stint.Take{Key: "a", Limit: fast})[0]; d.Remaining != 1000 {
					t.Errorf("%d of 1,000 are at home", d.Remaining)
				}
			})
		})
	}
}

// Each rule has numbers of its own, which outlast a change of it and end with it.
func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, rule := start(t, 1), terms(stint.Leased, fast)
		f.Nodes[0].Change(context.Background(), []*stint.Terms{rule, terms(stint.Strict, fast)})()
		for range 300 {
			pass(time.Millisecond)
			f.Decide(t, 0, under(rule, 1))
			f.Decide(t, 0, take("b", fast, 1)) // of no rule
		}
		busy := f.Nodes[0].Rules()
		if len(busy) != 1 || busy[0].Rule != "api/user" || busy[0].Held == 0 || busy[0].Idle != 0 || busy[0].Asks == 0 || busy[0].Reported == 0 || busy[0].Lent < 300 {
			t.Errorf("%+v", busy)
		}
		f.Nodes[0].Change(context.Background(), []*stint.Terms{terms(stint.Leased, fast)})()
		pass(time.Second)
		if idle := f.Nodes[0].Rules(); len(idle) != 1 || idle[0].Held != 0 || idle[0].Returned == 0 || idle[0].Lent < busy[0].Lent {
			t.Errorf("a second later %+v", idle)
		}
		f.Nodes[0].Change(context.Background(), nil)()
		if none := f.Nodes[0].Rules(); len(none) != 0 {
			t.Errorf("there is no rule any more, and %+v", none)
		}
	})
}
