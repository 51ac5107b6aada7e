package lease_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/lease"
	"stint/internal/testkit"
)

// atMost returns a take of at most some units.
func atMost(key stint.Key, limit *stint.Limit, most uint32) stint.Take {
	t := take(key, limit, most)
	t.Op = stint.AskAtMost
	return t
}

// The only node of a limit is charged all its units, however many of them it holds. It is denied only
// when neither it nor the store has any. This holds for single takes and in calls of several.
func TestAtMost(t *testing.T) {
	for _, several := range []bool{false, true} {
		for _, limit := range []*stint.Limit{thousand, stint.MustLimit(stint.Spec{Requests: 1000, Per: stint.MaxPer})} {
			synctest.Test(t, func(t *testing.T) {
				f, r, used := start(t, 1), rand.New(rand.NewPCG(1, 2)), 0
				takes := []stint.Take{take("a", limit, 1), take("b", limit, 0)}
				if !several {
					takes = takes[:1]
				}
				for ; used < 300; used++ { // until the key is busy, so that the node is lent units
					pass(time.Millisecond)
					if !f.Decide(t, 0, takes...)[0].Allowed {
						t.Fatalf("denied when %d are used", used)
					}
				}
				for charged := uint32(1); charged > 0; used += int(charged) {
					pass(time.Duration(r.IntN(20)) * time.Millisecond)
					takes[0] = atMost("a", limit, 1+r.Uint32N(90))
					d := f.Decide(t, 0, takes...)[0]
					if charged = d.Charged; d.Allowed != (charged > 0) || charged > takes[0].Cost {
						t.Fatalf("at most %d: %+v", takes[0].Cost, d)
					}
				}
				if stats := f.Nodes[0].Stats(); used != 1000 || stats.Lent == 0 {
					t.Errorf("several %v, %v: %d charged; %+v", several, limit.Algorithm(), used, stats)
				}
			})
		}
	}
}

// A node caches the denial of an AskAtMost as a denial of 1 unit: takes of a larger cost are denied
// by it. The cached denial of a larger cost does not deny an AskAtMost.
func TestAtMostDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		for range 300 {
			pass(time.Millisecond)
			f.Decide(t, 0, take("a", thousand, 1))
		}
		if f.Decide(t, 0, take("a", thousand, 900))[0].Allowed {
			t.Fatal("900 of 700 passed")
		}
		if d := f.Decide(t, 0, atMost("a", thousand, 900))[0]; !d.Allowed || d.Charged != 700 {
			t.Errorf("%+v, want 700 charged", d)
		}
		pass(time.Second) // until the denial of 900 is no longer cached
		f.Decide(t, 0, atMost("a", thousand, 900))
		asks := f.Nodes[0].Stats().Asks
		if d := f.Decide(t, 0, atMost("a", thousand, 3))[0]; d.Allowed || d.Charged != 0 || d.RetryAfter == 0 {
			t.Errorf("%+v", d)
		}
		if n := f.Nodes[0].Stats().Asks - asks; n > 0 {
			t.Errorf("the store was asked %d times about a key that it had just denied", n)
		}
	})
}

// While the store has no units, a node is charged those that it holds: after the store has answered
// that it has none, and while a report has no answer yet.
func TestAtMostHeld(t *testing.T) {
	for name, ready := range map[string]func(f *testkit.Fleet[*lease.Store]){
		"the store is empty": func(f *testkit.Fleet[*lease.Store]) {
			for range 10 {
				pass(time.Millisecond)
				f.Decide(t, 0, take("a", thousand, 1))
			}
		},
		"a report has no answer": func(f *testkit.Fleet[*lease.Store]) {
			gone := errors.New("gone")
			f.Store.Fail.Store(&gone)
			for f.Nodes[0].Stats().Held > 10 { // when there are few it asks for more
				pass(time.Millisecond)
				testkit.Decide(t, f.Nodes[0], take("a", thousand, 1))
			}
			f.Store.Fail.Store(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, 2)
				for range 300 {
					pass(time.Millisecond)
					f.Decide(t, 0, take("a", thousand, 1))
				}
				f.Decide(t, 1, atMost("a", thousand, 1000))
				ready(f)
				held := f.Nodes[0].Stats().Held
				if d := f.Decide(t, 0, atMost("a", thousand, 1000))[0]; int64(d.Charged) != held || held == 0 {
					t.Errorf("%+v, and %d were held", d, held)
				}
			})
		})
	}
}

// The AskAtMost takes of a call are all charged the same number of units, even if the node holds more
// units of one key than of another.
func TestAtMostTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		for range 300 {
			pass(time.Millisecond)
			f.Decide(t, 0, take("a", thousand, 1), take("b", thousand, 1))
		}
		for i, d := range f.Decide(t, 0, atMost("a", thousand, 3), atMost("b", thousand, 500)) {
			if !d.Allowed || d.Charged != 3 {
				t.Errorf("take %d: %+v", i, d)
			}
		}
	})
}
