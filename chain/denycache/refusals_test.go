package denycache

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
	"stint/internal/limits"
	"stint/store/memory"
)

// shared is a store in memory for several processes: it counts its calls, and needs some time, half
// of it before it decides.
type shared struct {
	memory *memory.Store
	takes  time.Duration
	asked  atomic.Int64
	denied atomic.Int64
	err    atomic.Pointer[error]

	degraded bool          // its answers are a guard's
	behind   time.Duration // by how much its clock was set back
}

func newShared() *shared {
	s := new(shared)
	s.memory = memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return stint.At(time.Now().Add(-s.behind)) }})
	return s
}

func (s *shared) Decide(ctx context.Context, call *stint.Call) error {
	s.asked.Add(1)
	if err := s.err.Load(); err != nil {
		return *err
	}
	half := s.takes / 2
	pass(half)
	err := s.memory.Decide(ctx, call)
	for i := range call.Results {
		call.Results[i].Degraded = s.degraded
		if !call.Results[i].Allowed {
			s.denied.Add(1)
			break
		}
	}
	pass(half)
	return err
}

// pass lets time pass, in a bubble of synctest.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's time is not real
}

// node is a process.
type node struct {
	*testing.T
	*Store
	shared *shared
}

// alone returns the only process of a store.
func alone(t *testing.T, o Options) *node {
	s := newShared()
	return &node{t, New(s, o), s}
}

// ask decides takes and returns the results and the number of calls to the store.
func (n *node) ask(takes ...stint.Take) (results []stint.Decision, asked int64) {
	n.Helper()
	before := n.shared.asked.Load()
	call := stint.Call{Takes: takes}
	if err := n.Decide(n.Context(), &call); err != nil {
		n.Fatal(err)
	}
	asked = n.shared.asked.Load() - before
	for i := range call.Results {
		if d := &call.Results[i]; d.Own != (asked == 0 && !d.Allowed) && !d.Degraded {
			n.Fatalf("asked %d times, and from the cache %v", asked, d.Own)
		}
		call.Results[i].Own = false
	}
	return call.Results, asked
}

// expect decides takes, and checks the number of calls to the store and the answer.
func (n *node) expect(asked int64, allowed bool, takes ...stint.Take) stint.Decision {
	n.Helper()
	results, got := n.ask(takes...)
	d, _ := stint.Combine(results)
	if got != asked || d.Allowed != allowed {
		n.Fatalf("the store was asked %d times, want %d: %+v", got, asked, d)
	}
	return d
}

// Limits of one unit, or of ten, a minute.
var (
	one = stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 1, Per: time.Minute, FromFirst: true})
	ten = stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Minute})
)

func take(key stint.Key, limit *stint.Limit, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: cost}
}

// TestUntilRetry: a denial is answered from the cache until exactly its retry time, from before the
// store was called, however long the answer took.
func TestUntilRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{MaxAge: time.Hour})
		n.shared.takes = 40 * time.Millisecond
		n.expect(1, true, take("a", one, 1))
		began := time.Now()
		first := n.expect(1, false, take("a", one, 1))
		if first.RetryAfter != time.Minute-40*time.Millisecond {
			t.Fatalf("%+v", first)
		}
		for time.Since(began) < first.RetryAfter {
			left := first.RetryAfter - time.Since(began)
			d := n.expect(0, false, take("a", one, 1))
			if d.RetryAfter != left || d.ResetAfter != left || d.At != first.At.Add(time.Since(began)) || d.Limit != 1 || d.Remaining != 0 {
				t.Fatalf("%v left: %+v", left, d)
			}
			time.Sleep(min(left, 7*time.Second))
		}
		n.expect(1, true, take("a", one, 1)) // the minute is over when the request arrives
		if s := n.Stats(); s.Answered != 9 || !s.Up {
			t.Errorf("%+v", s)
		}
	})
}

// TestCosts: a smaller cost goes to the store; a larger one does if only the store can compute when
// it passes.
func TestCosts(t *testing.T) {
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Minute})
	step := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Minute, Burst: 20, Step: true})
	window := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Minute})
	for _, test := range []struct {
		name          string
		limit         *stint.Limit
		first         uint32
		smaller, more int64 // calls to the store
		retry         time.Duration
	}{
		{"bucket", bucket, 10, 1, 0, 48 * time.Second},
		{"steps", step, 20, 1, 1, 0},
		{"window", window, 10, 1, 0, 0},
		{"log", ten, 10, 1, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := alone(t, Options{})
				n.expect(1, true, take("a", test.limit, test.first))
				n.expect(1, false, take("a", test.limit, 5))
				n.expect(test.more, false, take("a", test.limit, 8))
				n.expect(0, false, take("a", test.limit, 8))
				n.expect(test.smaller, false, take("a", test.limit, 4))
				n.expect(0, false, take("a", test.limit, 5))
				if d := n.expect(0, false, take("a", test.limit, 21)); d.RetryAfter != stint.Never {
					t.Errorf("%+v", d)
				}
				if d := n.expect(0, false, take("a", test.limit, 8)); test.retry > 0 && d.RetryAfter != test.retry {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

// TestAtMost: a take of at most some units is denied, and answered, like a take of 1 unit, whatever
// was denied before it for a larger cost.
func TestAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, limit := alone(t, Options{}), stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: 10 * time.Second})
		atMost := func(cost uint32) stint.Take {
			on := take("a", limit, cost)
			on.Op = stint.AskAtMost
			return on
		}
		n.expect(1, true, take("a", limit, 4))
		n.expect(1, false, take("a", limit, 8))
		if d := n.expect(1, true, atMost(8)); d.Charged != 6 {
			t.Errorf("%+v, want 6 charged", d)
		}
		n.expect(1, false, atMost(8))
		if d := n.expect(0, false, atMost(3)); d.RetryAfter != time.Second || d.Charged != 0 {
			t.Errorf("%+v", d)
		}
		n.expect(0, false, take("a", limit, 1))
		n.expect(0, false, take("a", limit, 2))
		pass(time.Second)
		if d := n.expect(1, true, atMost(3)); d.Charged != 1 {
			t.Errorf("%+v, want 1 charged", d)
		}
		n.expect(1, false, take("a", limit, 1))
		n.expect(0, false, atMost(5))
	})
}

// TestNever: a take that can never pass is denied for a while, but not under other numbers.
func TestNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		if d := n.expect(1, false, take("a", one, 2)); d.RetryAfter != stint.Never {
			t.Fatalf("%+v", d)
		}
		if d := n.expect(0, false, take("a", one, 2)); d.RetryAfter != stint.Never {
			t.Errorf("%+v", d)
		}
		two := stint.MustLimit(stint.Spec{Requests: 2, Per: time.Minute, FromFirst: true})
		n.expect(1, true, take("a", two, 2))
		n.expect(1, false, take("b", one, 2))
		time.Sleep(maxNever)
		n.expect(1, false, take("b", one, 2))
	})
}

// TestExcluded: calls that are never answered from the cache.
func TestExcluded(t *testing.T) {
	limit := func(spec stint.Spec) *stint.Limit {
		spec.Requests, spec.Per = 1, time.Minute
		return stint.MustLimit(spec)
	}
	with := func(change func(*stint.Take)) stint.Take {
		t := take("a", one, 1)
		change(&t)
		return t
	}
	for name, asked := range map[string][]stint.Take{
		"count_denied":       {take("a", limit(stint.Spec{Algorithm: stint.SlidingLog, CountDenied: true}), 1)},
		"overdraw":           {take("a", limit(stint.Spec{Algorithm: stint.FixedWindow, Overdraw: true}), 1)},
		"leaky_bucket":       {take("a", limit(stint.Spec{Algorithm: stint.LeakyBucket}), 1)},
		"hold":               {take("a", limit(stint.Spec{Algorithm: stint.TokenBucket, Reserve: true}), 1)},
		"start: used_up":     {take("a", limit(stint.Spec{Algorithm: stint.SlidingWindow, StartUsedUp: true}), 1)},
		"live":               {with(func(t *stint.Take) { t.Handling = &stint.Handling{Live: true} })},
		"borrows":            {with(func(t *stint.Take) { t.Borrows = 1 }), take("pool", one, 1)},
		"units are wanted":   {with(func(t *stint.Take) { t.Handling = &stint.Handling{Terms: leased, Loan: &stint.Loan{Node: 7, Seq: 1}} })},
		"eventual":           {with(func(t *stint.Take) { t.Handling = &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}} })},
		"apart and passing":  {take("a", one, 1), {Key: "b", Limit: ten, Cost: 1, Independent: true}},
		"apart and a peek":   {take("a", one, 1), {Key: "b", Limit: one, Independent: true}},
		"twice the same key": {take("a", one, 1), take("a", one, 1)},
		"a peek":             {take("a", one, 0)},
		"overdraw beside":    {take("a", one, 1), take("b", limit(stint.Spec{Algorithm: stint.FixedWindow, Overdraw: true}), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := alone(t, Options{})
				for range 5 {
					if _, got := n.ask(asked...); got != 1 {
						t.Fatalf("the store was asked %d times", got)
					}
				}
			})
		})
	}
	t.Run("a fixed time", func(t *testing.T) {
		n := alone(t, Options{})
		for range 3 {
			call := stint.Call{At: stint.At(time.Now()), Takes: []stint.Take{take("a", one, 1)}}
			if err := n.Decide(t.Context(), &call); err != nil {
				t.Fatal(err)
			}
		}
		if n.shared.asked.Load() != 3 || n.Stats().Keys != 0 {
			t.Errorf("asked %d times, %+v", n.shared.asked.Load(), n.Stats())
		}
	})
}

var leased = &stint.Terms{Coordination: stint.Leased}

// TestGrants: a denial of a take with grants answers no other take.
func TestGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{MaxAge: time.Hour})
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Minute})
		begins := stint.At(time.Now().Add(time.Hour))
		take := func(cost uint32) stint.Take {
			grants := []limits.Grant{{ID: "later", Units: 5, Priority: limits.GrantPriority, From: begins, Until: stint.MaxInstant}}
			return stint.Take{Key: "a", Limit: limit, Cost: cost, Handling: &stint.Handling{Meter: &limits.Meter{Grants: grants}}}
		}
		n.expect(1, true, take(10))
		if d := n.expect(1, false, take(1)); d.RetryAfter != d.ResetAfter {
			t.Errorf("%+v", d)
		}
		if d := n.expect(1, false, take(12)); d.RetryAfter != time.Hour {
			t.Errorf("%+v", d)
		}
	})
}

// TestLeased: the denial of a leased take is cached if this process has no units of the key, as it
// is decided as in strict mode.
func TestLeased(t *testing.T) {
	n := alone(t, Options{})
	rare := take("a", one, 1)
	rare.Handling = &stint.Handling{Terms: leased, Loan: &stint.Loan{KeptAfterLoss: true}}
	n.expect(1, true, rare)
	n.expect(1, false, rare)
	n.expect(0, false, rare)
}

// TestLent: while others hold units of a key, a cached denial is one that the store would give, with
// the same retry time, whatever was denied before.
func TestLent(t *testing.T) {
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 100})
	for first := uint32(80); first <= 101; first += 7 {
		for next := uint32(40); next <= 101; next++ {
			synctest.Test(t, func(t *testing.T) {
				n := alone(t, Options{})
				lent := take("a", bucket, 2)
				lent.Handling = &stint.Handling{Terms: leased, Loan: &stint.Loan{Node: 1, Seq: 1, Want: 50}}
				n.expect(1, true, lent) // 12 units
				rare := take("a", bucket, first)
				rare.Handling = &stint.Handling{Terms: leased, Loan: &stint.Loan{}}
				n.ask(rare)
				rare.Cost = next
				pass(10 * time.Millisecond)
				got, _ := n.ask(rare)
				call := stint.Call{Takes: []stint.Take{take("a", bucket, next)}}
				if err := n.shared.memory.Decide(t.Context(), &call); err != nil {
					t.Fatal(err)
				}
				if want := call.Results[0]; !got[0].Allowed && got[0] != want {
					t.Errorf("a take of %d after one of %d: %+v, want %+v", next, first, got[0], want)
				}
			})
		}
	}
}

// TestSeveral: all takes of a call are answered, and keys that pass in other calls stay cached.
func TestSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		user, all := take("user", one, 1), take("all", ten, 2)
		n.expect(1, true, user)
		results, _ := n.ask(user, all)
		for range 3 {
			again, asked := n.ask(user, all)
			if asked != 0 || again[0] != results[0] || again[1] != results[1] || !again[1].Allowed || again[1].Remaining != 10 {
				t.Fatalf("asked %d times: %+v", asked, again)
			}
		}
		n.expect(1, true, take("other", one, 1), all)
		if results, asked := n.ask(user, all); asked != 0 || results[1].Remaining != 8 {
			t.Errorf("asked %d times: %+v", asked, results)
		}
		n.expect(1, true, take("all", ten, 7))
		results, asked := n.ask(user, all) // 2 of the last 1 may pass again sooner than the user
		if asked != 1 || results[0].Allowed || results[1].Allowed {
			t.Errorf("asked %d times: %+v", asked, results)
		}
		n.expect(0, false, user, all)
	})
}

// TestInterval: min_interval is part of the numbers, and remaining units alone do not mean that a
// take fits.
func TestInterval(t *testing.T) {
	apart := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Minute, MinInterval: 10 * time.Second})
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		n.expect(1, true, take("a", apart, 1))
		if d := n.expect(1, false, take("a", apart, 1)); d.RetryAfter != 10*time.Second || d.Remaining != 9 {
			t.Fatalf("%+v", d)
		}
		n.expect(0, false, take("a", apart, 1))
		n.expect(1, true, take("a", ten, 1))
	})
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		both := []stint.Take{take("a", one, 1), take("log", apart, 2)}
		n.expect(1, true, both[0])
		n.expect(1, false, both...)
		n.expect(0, false, both...)
		n.expect(1, true, take("beside", ten, 1), both[1])
		results, asked := n.ask(both...)
		if asked != 1 || results[1].Allowed || results[1].RetryAfter != 10*time.Second {
			t.Errorf("asked %d times: %+v", asked, results)
		}
	})
}

// TestApart: a call of Independent takes is answered if all are denied.
func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		a, b := take("a", one, 1), take("b", one, 1)
		a.Independent, b.Independent = true, true
		n.expect(1, true, a)
		n.expect(1, false, a, b)
		n.expect(1, false, a, b)
		n.expect(0, false, a, b)
		n.expect(1, false, a, take("c", one, 1))
		n.expect(1, false, a, take("c", one, 1))
		n.expect(0, false, a, take("c", one, 1))
	})
}

// TestChanges: after any operation but Ask the next call goes to the store.
func TestChanges(t *testing.T) {
	for _, op := range []stint.Op{stint.Force, stint.Refund, stint.Reset} {
		synctest.Test(t, func(t *testing.T) {
			n := alone(t, Options{})
			n.expect(1, true, take("a", one, 1))
			n.expect(1, false, take("a", one, 1))
			n.expect(0, false, take("a", one, 1))
			change := take("a", one, 1)
			change.Op = op
			n.expect(1, true, change)
			if n.expect(1, op != stint.Force, take("a", one, 1)); op != stint.Force {
				n.expect(1, false, take("a", one, 1))
			}
			n.expect(0, false, take("a", one, 1))
			n.Forget()
			n.expect(1, false, take("a", one, 1))
		})
	}
}

// TestFailures: an error of the store is returned, and keys that it may have changed go to the
// store again.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		n.expect(1, true, take("a", one, 1))
		n.expect(1, false, take("a", one, 1))
		away := errors.Join(stint.ErrUnknown, errors.New("away"))
		n.shared.err.Store(&away)
		n.expect(0, false, take("a", one, 1))
		for range 2 {
			if err := n.Decide(t.Context(), &stint.Call{Takes: []stint.Take{take("a", one, 1), take("b", one, 1)}}); !errors.Is(err, away) {
				t.Error(err)
			}
		}
		n.shared.err.Store(nil)
		n.expect(1, false, take("a", one, 1))
	})
}

// TestDegraded: decisions of a guard's policies are not cached.
func TestDegraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		n.expect(1, true, take("a", one, 1))
		n.expect(1, false, take("a", one, 1))
		pass(time.Minute)
		n.shared.degraded = true
		for _, key := range []stint.Key{"a", "b", "b"} {
			n.expect(1, false, take(key, one, 2))
		}
		n.shared.degraded = false
		n.expect(1, true, take("a", one, 1))
		n.expect(1, true, take("b", one, 1))
	})
}

// TestHerd: of many clients that wait for the retry time only a few calls go to the store.
func TestHerd(t *testing.T) {
	refilled := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: 10 * time.Second})
	for _, test := range []struct {
		name           string
		limit          *stint.Limit
		passed, denied int64
	}{{"one passes", refilled, 1, 1}, {"ten pass", ten, 10, 1}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := alone(t, Options{})
				n.expect(1, true, take("a", test.limit, 10))
				time.Sleep(time.Millisecond)
				d := n.expect(1, false, take("a", test.limit, 1))
				time.Sleep(d.RetryAfter)
				n.shared.takes = 2 * time.Millisecond
				n.shared.asked.Store(0)
				n.shared.denied.Store(0)
				var passed atomic.Int64
				var callers sync.WaitGroup
				for range 64 {
					callers.Go(func() {
						call := stint.Call{Takes: []stint.Take{take("a", test.limit, 1)}}
						if err := n.Decide(t.Context(), &call); err != nil {
							t.Error(err)
						} else if call.Results[0].Allowed {
							passed.Add(1)
						}
					})
				}
				callers.Wait()
				if passed.Load() != test.passed || n.shared.denied.Load() > test.denied || n.shared.asked.Load() > test.passed+test.denied {
					t.Errorf("%d passed, the store was asked %d times and denied %d", passed.Load(), n.shared.asked.Load(), n.shared.denied.Load())
				}
			})
		})
	}
}

// TestHerdLetGo: calls that wait for another call's answer end at their deadline, and go on when
// the store fails that call.
func TestHerdLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		n.expect(1, true, take("a", one, 1))
		n.expect(1, false, take("a", one, 1))
		time.Sleep(time.Minute)
		n.shared.takes = time.Second
		var callers sync.WaitGroup
		callers.Go(func() { n.expect(1, true, take("a", one, 1)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := n.Decide(ctx, &stint.Call{Takes: []stint.Take{take("a", one, 1)}})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, stint.ErrUnknown) {
			t.Error(err)
		}
		callers.Wait()
	})
}

// TestBounds: memory is bounded, and freed.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 256 << 10
		n := alone(t, Options{Bytes: budget})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { n.Store.Run(ctx) })
		for i := range 1000 {
			key := stint.Key(fmt.Sprint("key", i))
			n.ask(take(key, one, 1))
			n.ask(take(key, one, 1))
			if s := n.Stats(); s.Bytes > budget || s.Keys == 0 {
				t.Fatalf("%+v", s)
			}
		}
		if s := n.Stats(); s.Dropped < 300 {
			t.Errorf("%+v", s)
		}
		long := stint.Key(make([]byte, budget))
		n.ask(take(long, one, 1))
		n.ask(take(long, one, 1))
		n.expect(1, false, take(long, one, 1))
		time.Sleep(time.Minute + grace + shardCount*beatEvery)
		synctest.Wait()
		if s := n.Stats(); s.Bytes != 0 || s.Keys != 0 {
			t.Errorf("%+v", s)
		}
		cancel()
		running.Wait()
	})
}

// TestSetBack: answers of a server whose clock was set back are cached too.
func TestSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		n.expect(1, true, take("a", one, 1))
		n.expect(1, false, take("a", one, 1))
		pass(time.Minute)
		n.shared.behind = time.Hour
		n.expect(1, false, take("a", one, 1))
		n.expect(0, false, take("a", one, 1))
	})
}

// TestAllocations: an answer from the cache allocates nothing.
func TestAllocations(t *testing.T) {
	n := alone(t, Options{})
	call := stint.Call{Takes: []stint.Take{take("user", one, 1), take("all", ten, 1)}}
	ask := func() {
		if err := n.Decide(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	ask()
	if got := testing.AllocsPerRun(1000, ask); got != 0 || n.shared.asked.Load() != 2 {
		t.Errorf("%v allocations, asked %d times", got, n.shared.asked.Load())
	}
}

// BenchmarkDecide measures a denial from the cache, by all processors for one key, and what the
// cache adds to other calls.
func BenchmarkDecide(b *testing.B) {
	for _, bench := range []struct {
		name  string
		limit *stint.Limit
	}{{"remembered", one}, {"asked", stint.MustLimit(stint.Spec{Requests: 4e9, Per: 24 * time.Hour})}} {
		b.Run(bench.name, func(b *testing.B) {
			s := New(memory.New(memory.Options{}), Options{})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				call := stint.Call{Takes: []stint.Take{take("a", bench.limit, 1)}}
				for pb.Next() {
					if err := s.Decide(context.Background(), &call); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
