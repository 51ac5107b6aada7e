package eventual_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/memory"
)

var (
	// thousand passes 1,000 and hardly refills while a test runs.
	thousand = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: stint.MaxPer})
	// fast is 10,000 a second, 1,000 at once.
	fast = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second, Burst: 1000})
	// window is 1,000 in each second.
	window = stint.MustLimit(stint.Spec{Requests: 1000, Per: time.Second, CarryDebt: true})
)

// start runs n nodes until the test ends.
func start(t testing.TB, n int, o eventual.Options) *testkit.Fleet[*eventual.Store] {
	t.Helper()
	return startOn(t, memory.New(memory.Options{}), n, o)
}

// startOn runs them on a store.
func startOn(t testing.TB, store stint.Store, n int, o eventual.Options) *testkit.Fleet[*eventual.Store] {
	t.Helper()
	return testkit.StartFleet(t, store, n, func(s stint.Store) *eventual.Store { return eventual.New(s, o) })
}

func take(key stint.Key, limit *stint.Limit, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: cost, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}}}
}

// pass lets time pass, in a bubble.
func pass(d time.Duration) { time.Sleep(d) } // by the clock of a bubble

// One node decides like the store itself, and reports everything to it.
func TestAlone(t *testing.T) {
	for _, limit := range []*stint.Limit{fast, window} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, 1, eventual.Options{})
				own := memory.New(memory.Options{})
				for i := range 5000 {
					pass(time.Duration(i%7) * 20 * time.Microsecond)
					cost := uint32(i % 5)
					ask, decide := take("a", limit, cost), own.Take
					if i%3 == 0 {
						ask.Op, decide = stint.AskAtMost, own.TakeAtMost
					}
					got := f.Decide(t, 0, ask)[0]
					if want := decide("a", limit, cost); got != want {
						t.Fatalf("take %d: %+v, want %+v", i, got, want)
					}
				}
				if n := f.Store.Calls.Load(); n > 20 {
					t.Errorf("%d calls for 5000 decisions", n)
				}
				pass(200 * time.Millisecond)
				if got, want := f.Stored(t, "a", limit), own.Take("a", limit, 0); got != want {
					t.Errorf("the store has %+v, want %+v", got, want)
				}
			})
		})
	}
}

// What nodes spend too much they owe: it happens once.
func TestDebt(t *testing.T) {
	const nodes, interval = 8, 100 * time.Millisecond
	for _, test := range []struct {
		limit *stint.Limit
		most  int64 // in one burst
	}{{fast, 1000 + 1000}, {window, 1000}} {
		t.Run(test.limit.Algorithm().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, nodes, eventual.Options{Interval: interval})
				for node := range nodes { // they know the key
					f.Decide(t, node, take("a", test.limit, 0))
				}
				var passed int64
				began := time.Now()
				for time.Since(began) < 10*time.Second { // each asks for 4,000 a second
					pass(time.Millisecond)
					for node := range nodes {
						if f.Decide(t, node, take("a", test.limit, 4))[0].Allowed {
							passed += 4
						}
					}
				}
				rate := float64(test.limit.Spec().Requests)
				ideal := int64(rate*10) + test.limit.Capacity()
				extra := passed - ideal
				if bound := (nodes - 1) * test.most; extra > bound {
					t.Errorf("%d passed, %d more than the limit, above %d", passed, extra, bound)
				}
				if passed < ideal*9/10 {
					t.Errorf("%d passed of %d", passed, ideal)
				}
				t.Logf("%d passed, %d of the limit", passed, ideal)
			})
		})
	}
}

// A push whose answer was lost is told again, and charged once.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		f.Decide(t, 0, take("a", thousand, 1))
		f.Decide(t, 0, take("a", thousand, 9))
		lost := errors.New("lost")
		f.Store.Lose.Store(&lost)
		pass(250 * time.Millisecond)
		f.Decide(t, 0, take("a", thousand, 5))
		if d := f.Stored(t, "a", thousand); d.Remaining != 990 {
			t.Errorf("%d are left while answers are lost, want 990", d.Remaining)
		}
		f.Store.Lose.Store(nil)
		pass(250 * time.Millisecond)
		if d := f.Stored(t, "a", thousand); d.Remaining != 985 {
			t.Errorf("%d are left, want 985", d.Remaining)
		}
		if n := f.Nodes[0].Stats(); n.Repeated == 0 || n.Unanswered != 0 {
			t.Errorf("%+v", n)
		}
	})
}
