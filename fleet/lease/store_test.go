package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/lease"
	"stint/internal/testkit"
	"stint/store/memory"
)

// thousand passes 1,000 and hardly refills while a test runs.
var thousand = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: stint.MaxPer})

// start runs n nodes until the test ends.
func start(t *testing.T, n int) *testkit.Fleet[*lease.Store] {
	t.Helper()
	return testkit.StartFleet(t, memory.New(memory.Options{}), n, func(s stint.Store) *lease.Store { return lease.New(s, lease.Options{}) })
}

func take(key stint.Key, limit *stint.Limit, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: cost, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased}}}
}

// Eight nodes with eight callers each let pass exactly the limit, to the last unit, and ask the
// store for few of the takes.
func TestExactTogether(t *testing.T) {
	for _, limit := range []*stint.Limit{thousand, stint.MustLimit(stint.Spec{Requests: 1000, Per: stint.MaxPer})} {
		t.Run(limit.Algorithm().String(), func(t *testing.T) {
			f := start(t, 8)
			var passed atomic.Int64
			var callers sync.WaitGroup
			done := time.Now().Add(20 * time.Second)
			for i := range 64 {
				callers.Go(func() {
					call := stint.Call{}
					for passed.Load() < 1000 && time.Now().Before(done) {
						call.Takes = append(call.Takes[:0], take("a", limit, 1))
						if err := f.Nodes[i%8].Decide(context.Background(), &call); err != nil {
							t.Error(err)
							return
						}
						if call.Results[0].Allowed {
							passed.Add(1)
						}
					}
				})
			}
			callers.Wait()
			for range 3 { // a little longer, to see whether any more pass
				for node := range f.Nodes {
					if f.Decide(t, node, take("a", limit, 1))[0].Allowed {
						passed.Add(1)
					}
				}
			}
			if passed.Load() != 1000 {
				t.Errorf("%d passed, want 1000", passed.Load())
			}
		})
	}
}

// The node decides a busy key, and returns its unused units.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		for range 2000 { // 1,000 a second
			pass(time.Millisecond)
			if d := f.Decide(t, 0, take("a", fast, 1))[0]; !d.Allowed || d.Remaining < 500 || d.Remaining > 1000 || d.Limit != 1000 {
				t.Fatalf("%+v", d)
			}
		}
		stats := f.Nodes[0].Stats()
		if stats.Held == 0 || stats.Asks > 30 || stats.Messages > 30 {
			t.Errorf("%+v", stats)
		}
		pass(time.Second)
		if stats = f.Nodes[0].Stats(); stats.Held != 0 || stats.Returned == 0 {
			t.Errorf("after a second of rest: %+v", stats)
		}
		pass(10 * time.Second)
		if stats = f.Nodes[0].Stats(); stats.Keys != 0 {
			t.Errorf("after ten: %+v", stats)
		}
	})
}

// A take of a window that the node decided is given back in full, at whatever part of a microsecond
// the node decided it.
func TestRefund(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 1000, Per: stint.MaxPer})
	synctest.Test(t, func(t *testing.T) {
		f, local := start(t, 1), 0
		for i := range 500 {
			pass(time.Millisecond + 567*time.Nanosecond)
			asks := f.Nodes[0].Stats().Asks
			one := take("a", limit, 1)
			d := f.Decide(t, 0, one)[0]
			if f.Nodes[0].Stats().Asks == asks {
				local++
			}
			if i%4 == 0 {
				one.Op, one.Undo = stint.Refund, &d
				f.Decide(t, 0, one)
			}
		}
		pass(time.Second) // until the node has returned its units
		if d := f.Decide(t, 0, take("a", limit, 0))[0]; d.Remaining != 625 || local < 300 {
			t.Errorf("%d remain, want 625; %d takes were decided here", d.Remaining, local)
		}
	})
}

var fast = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second, Burst: 1000})

// pass lets time pass, in a bubble.
func pass(d time.Duration) { time.Sleep(d) } // by the clock of a bubble

// Takes cost the store nothing more than in strict mode if lending would not save enough: of rare
// keys, and of limits of which too little can be lent.
func TestNotWorthLending(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit *stint.Limit
		every time.Duration
		lent  bool
	}{
		{"5 a second", fast, 200 * time.Millisecond, false},
		{"20 a second", fast, 50 * time.Millisecond, true},
		{"of a small limit", stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 63}), 2 * time.Millisecond, false},
		{"of one with enough", stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 200}), 2 * time.Millisecond, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, 1)
				var wants atomic.Bool
				f.Store.Seen = func(call *stint.Call) {
					if a := call.Takes[0].Loan(); a != nil && a.Want > 0 {
						wants.Store(true)
					}
				}
				const takes = 400
				for range takes {
					pass(test.every)
					f.Decide(t, 0, take("a", test.limit, 1))
				}
				stats := f.Nodes[0].Stats()
				if cost := stats.Asks + stats.Messages; stats.Lent > 0 != test.lent || wants.Load() != test.lent || cost > takes || test.lent && cost > takes/2 {
					t.Errorf("%+v", stats)
				}
			})
		})
	}
}

// A node whose reports save too few calls asks for no units for some seconds, and then tries again.
func TestLentTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		var wants atomic.Int64
		few := true
		f.Store.Seen = func(call *stint.Call) {
			if a := call.Takes[0].Loan(); a != nil && a.Want > 0 {
				wants.Add(1)
				if few {
					a.Want = 2
				}
			}
		}
		run := func(d time.Duration) (asks, lent uint64) {
			before := f.Nodes[0].Stats()
			wants.Store(0)
			for range d / (5 * time.Millisecond) {
				pass(5 * time.Millisecond)
				f.Decide(t, 0, take("a", fast, 1))
			}
			after := f.Nodes[0].Stats()
			return after.Asks + after.Messages - before.Asks - before.Messages, after.Lent - before.Lent
		}
		if asks, lent := run(60 * time.Second); lent == 0 || wants.Load() > 30 || asks > 12_050 {
			t.Errorf("%d units lent by %d attempts; %d calls for 12,000 takes", lent, wants.Load(), asks)
		}
		few = false
		run(270 * time.Second) // it waits for at most 256 s
		if asks, lent := run(4 * time.Second); lent < 700 || asks > 100 {
			t.Errorf("%d units lent, %d calls for 800 takes, when there is enough", lent, asks)
		}
	})
}

// A node that is lent nothing asks less and less often.
func TestNothingToLend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		var asks atomic.Int64
		f.Store.Seen = func(call *stint.Call) {
			if a := call.Takes[0].Loan(); a != nil && a.Want > 0 {
				a.Node = 0 // such a store lends nothing
				asks.Add(1)
			}
		}
		for range 6000 { // 60 seconds
			pass(10 * time.Millisecond)
			f.Decide(t, 0, take("a", fast, 1))
		}
		if n := asks.Load(); n < 3 || n > 5 {
			t.Errorf("it asked %d times", n)
		}
	})
}

// Many takes of a used up key cost only a few calls of the store each second, and every denial has
// the time until units are available.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		f.Decide(t, 0, take("a", thousand, 1000))
		f.Store.Calls.Store(0)
		for range 100_000 {
			pass(10 * time.Microsecond)
			d := f.Decide(t, 0, take("a", thousand, 1))[0]
			if d.Allowed || d.RetryAfter < 8*time.Hour || d.Remaining != 0 {
				t.Fatalf("%+v", d)
			}
		}
		if n := f.Store.Calls.Load(); n > 16+12 { // 16 until the key counts as busy
			t.Errorf("%d calls for 100,000 refusals in a second", n)
		}
	})
}

// The store decides a take larger than the node's units, and gets those units back first.
func TestLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		for range 100 {
			f.Decide(t, 0, take("a", thousand, 1))
		}
		pass(100 * time.Millisecond)
		if d := f.Decide(t, 0, take("a", thousand, 900))[0]; !d.Allowed {
			t.Errorf("900 of what is left of 1,000: %+v, %+v", d, f.Nodes[0].Stats())
		}
		if d := f.Decide(t, 0, take("a", thousand, 1))[0]; d.Allowed {
			t.Errorf("one more: %+v", d)
		}
	})
}

// A large take that is denied because others hold units calls those in.
func TestCallIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 2)
		for range 100 {
			pass(2 * time.Millisecond)
			f.Decide(t, 0, take("a", fast, 1))
		}
		for range 5 {
			if f.Decide(t, 1, take("a", fast, 1000))[0].Allowed {
				return
			}
			for range 100 {
				pass(2 * time.Millisecond)
				f.Decide(t, 0, take("b", fast, 1))
			}
		}
		t.Error("the whole burst is never there")
	})
}

// Of a call of several takes all are charged or none, wherever they are decided.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		pass(time.Millisecond / 2) // never at once with a message: what that reports counts as spent
		busy := func() {
			for range 50 {
				pass(time.Millisecond)
				f.Decide(t, 0, take("a", fast, 1))
			}
		}
		strict := stint.Take{Key: "s", Limit: stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour}), Cost: 1}
		other := take("b", thousand, 1)
		for i := range 5 {
			busy()
			got := f.Decide(t, 0, take("a", fast, 1), strict, other)
			if got[0].Allowed != true || got[1].Allowed != (i < 2) || got[2].Allowed != true {
				t.Fatalf("call %d: %+v", i, got)
			}
		}
		pass(3 * time.Second) // all units are returned
		if d := f.Decide(t, 0, take("b", thousand, 0))[0]; d.Remaining != 998 {
			t.Errorf("two calls passed, and of the other key %d are left of 1,000", d.Remaining)
		}
	})
}

// While the store fails, the node first spends its units, and then returns the store's error.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		for range 300 {
			pass(time.Millisecond)
			f.Decide(t, 0, take("a", fast, 1))
		}
		gone := errors.New("gone")
		f.Store.Fail.Store(&gone)
		held, passed := f.Nodes[0].Stats().Held, int64(0)
		for {
			call := stint.Call{Takes: []stint.Take{take("a", fast, 1)}}
			if err := f.Nodes[0].Decide(context.Background(), &call); err != nil {
				if !errors.Is(err, gone) {
					t.Error(err)
				}
				break
			}
			passed++
		}
		if passed != held || held == 0 {
			t.Errorf("%d passed, and %d were held", passed, held)
		}
		f.Store.Fail.Store(nil)
		pass(100 * time.Millisecond)
		if d := f.Decide(t, 0, take("a", fast, 1))[0]; !d.Allowed {
			t.Errorf("the store is back: %+v", d)
		}
	})
}

// The units of a lease end with it, by either clock.
func TestClocks(t *testing.T) {
	for _, jump := range []struct {
		name string
		by   lease.Moment
	}{
		{"the clock that nobody sets", lease.Moment{Mono: int64(2 * time.Second)}},
		{"the wall clock", lease.Moment{Wall: int64(2 * time.Second)}},
	} {
		t.Run(jump.name, func(t *testing.T) {
			now := lease.Moment{Mono: 1, Wall: time.Now().UnixNano()}
			store := &testkit.SharedStore{Store: memory.New(memory.Options{})}
			s := lease.New(store, lease.Options{Clock: func() lease.Moment { return now }})
			ask := func() {
				call := stint.Call{Takes: []stint.Take{take("a", fast, 1)}}
				if err := s.Decide(context.Background(), &call); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				ask()
			}
			before := store.Calls.Load()
			if ask(); store.Calls.Load() != before {
				t.Fatal("the key is not lent")
			}
			now.Mono, now.Wall = now.Mono+jump.by.Mono, now.Wall+jump.by.Wall
			if ask(); store.Calls.Load() == before {
				t.Error("it was spent after the lease")
			}
		})
	}
}

// What is decided here allocates nothing.
func TestAllocations(t *testing.T) {
	s := lease.New(memory.New(memory.Options{}), lease.Options{})
	call := stint.Call{Takes: []stint.Take{take("a", thousand, 1)}}
	ask := func() {
		if err := s.Decide(context.Background(), &call); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		ask()
	}
	if n := testing.AllocsPerRun(20, ask); n != 0 {
		t.Errorf("%v allocations for what passes", n)
	}
	for range 1000 {
		ask()
	}
	if n := testing.AllocsPerRun(100, ask); n != 0 || call.Results[0].Allowed {
		t.Errorf("%v allocations for a refusal %+v", n, call.Results[0])
	}
}

// A node repeats an ask without an answer, and gets the units that the first ask was granted.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		for range 100 {
			pass(time.Millisecond)
			f.Decide(t, 0, take("a", fast, 1))
		}
		late := context.DeadlineExceeded
		f.Store.Fail.Store(&late)
		pass(200 * time.Millisecond)
		f.Store.Fail.Store(nil)
		pass(50 * time.Millisecond)
		if n := f.Nodes[0].Stats().Repeated; n == 0 {
			t.Error("nothing was repeated")
		}
		pass(time.Second)
		if d := f.Decide(t, 0, take("a", fast, 0))[0]; d.Remaining != 1000 {
			t.Errorf("%d of 1,000 are there when all has come home", d.Remaining)
		}
	})
}

func ExampleStore() {
	store := memory.New(memory.Options{}) // what all nodes share; Redis in a fleet
	node := lease.New(store, lease.Options{})
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { node.Run(ctx); close(stopped) }()

	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Hour})
	passed := 0
	for range 1000 {
		call := stint.Call{Takes: []stint.Take{{Key: "api/user=42", Limit: limit, Cost: 1, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased}}}}}
		if err := node.Decide(ctx, &call); err == nil && call.Results[0].Allowed {
			passed++
		}
	}
	fmt.Println(passed, "of 1000 passed")
	stop()
	<-stopped
	// Output: 100 of 1000 passed
}

// Of a limit of billions a node holds about as many units as it uses, and returns unused ones, to
// the last unit.
func TestLargeComesHome(t *testing.T) {
	large := stint.MustLimit(stint.Spec{Requests: 4_000_000_000, Per: 24 * time.Hour})
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		const cost = 2_000_000
		taken, most := int64(0), int64(0)
		for range 500 {
			pass(time.Millisecond)
			if f.Decide(t, 0, take("a", large, cost))[0].Allowed {
				taken += cost
			}
			most = max(most, f.Nodes[0].Stats().Held)
		}
		pass(3 * time.Second)
		look := stint.Call{Takes: []stint.Take{{Key: "a", Limit: large}}}
		if err := f.Store.Store.Decide(t.Context(), &look); err != nil {
			t.Fatal(err)
		}
		if left := look.Results[0].Remaining; most < 100_000_000 || left != large.Capacity()-taken {
			t.Errorf("%d were taken, and the node held up to %d: %d are left, want %d", taken, most, left, large.Capacity()-taken)
		}
	})
}
