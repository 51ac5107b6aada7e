package denycache

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
)

// TestMaxAge: nothing is cached for longer than MaxAge, even a key that nobody uses.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{MaxAge: 10 * time.Second})
		n.expect(1, true, take("a", one, 1))
		n.expect(1, false, take("a", one, 1))
		time.Sleep(9*time.Second - 1)
		n.expect(0, false, take("a", one, 1))
		time.Sleep(time.Nanosecond)
		n.expect(1, false, take("a", one, 1)) // calls the store again
		n.expect(0, false, take("a", one, 1))
		time.Sleep(10 * time.Second)
		n.empty("a")
		n.expect(1, true, take("a", one, 1))
	})
}

// empty deletes a key in the store, as somebody does by hand.
func (n *node) empty(key stint.Key) {
	n.Helper()
	call := stint.Call{Takes: []stint.Take{{Key: key, Limit: one, Op: stint.Reset}, {Key: key, Limit: ten, Op: stint.Reset}}}
	if err := n.shared.memory.Decide(n.Context(), &call); err != nil {
		n.Fatal(err)
	}
}

// TestRenew: of many calls for one key one goes to the store in MaxAge, less a tenth, also if calls
// have several keys; the others do not wait, and a key that was deleted by hand is free again
// within MaxAge.
func TestRenew(t *testing.T) {
	takes := []stint.Take{take("a", one, 1), take("b", ten, 1), take("c", ten, 1)}
	for _, test := range []struct {
		name  string
		takes []stint.Take
	}{
		{"a refused key", takes[:1]},
		{"with others", takes},
		{"of two costs", []stint.Take{take("a", ten, 8)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := alone(t, Options{})
				n.shared.takes = 10 * time.Millisecond
				n.expect(1, true, test.takes...)
				n.expect(1, false, test.takes...)
				began, before := time.Now(), n.shared.asked.Load()
				var freed, slow atomic.Int64
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() {
						for time.Since(began) < 10*time.Second {
							call := stint.Call{Takes: slices.Clone(test.takes)}
							asked := time.Now()
							if err := n.Decide(t.Context(), &call); err != nil {
								t.Error(err)
								return
							}
							if d, _ := stint.Combine(call.Results); d.Allowed {
								freed.CompareAndSwap(0, int64(time.Since(began)))
							}
							if time.Since(asked) > 0 {
								slow.Add(1)
							}
							pass(7 * time.Millisecond)
						}
					})
				}
				pass(5*time.Second + 30*time.Millisecond)
				if n := n.shared.asked.Load() - before; n < 5 || n > 6 {
					t.Errorf("the store was asked %d times in 5 s", n)
				}
				if slow := slow.Load(); slow > 6 {
					t.Errorf("%d calls waited in 5 s", slow)
				}
				n.empty("a")
				all.Wait()
				if at := time.Duration(freed.Load()); at < 5*time.Second || at > 6*time.Second+50*time.Millisecond {
					t.Errorf("free again after %v, and was emptied after 5.03s", at)
				}
			})
		})
	}
}

// TestRenewFails: if the call that renews gets no answer nothing stays cached, and the next one
// goes to the store.
func TestRenewFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		n.expect(1, true, take("a", one, 1))
		n.expect(1, false, take("a", one, 1))
		pass(950 * time.Millisecond)
		away := errors.New("away")
		n.shared.err.Store(&away)
		for range 2 {
			call := stint.Call{Takes: []stint.Take{take("a", one, 1)}}
			if err := n.Decide(t.Context(), &call); !errors.Is(err, away) {
				t.Errorf("%v, want that the store is away", err)
			}
		}
		n.shared.err.Store(nil)
		n.expect(1, false, take("a", one, 1))
		n.expect(0, false, take("a", one, 1))
	})
}

// TestSleep: neither a machine that slept nor a clock that is set makes denials longer.
func TestSleep(t *testing.T) {
	asked := moment{mono: 5e9, wall: 100e9}
	for _, test := range []struct {
		name string
		now  moment
		want time.Duration
	}{
		{"both go on", moment{8e9, 103e9}, 3 * time.Second},
		{"slept", moment{5e9 + 1, 200e9}, 100 * time.Second},
		{"set back", moment{8e9, 1e9}, 3 * time.Second},
		{"the same", asked, 0},
	} {
		if got := test.now.since(asked); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
