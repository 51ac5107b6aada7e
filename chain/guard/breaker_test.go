package guard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
)

// TestFrozen: a store that freezes costs three calls a timeout, and not each request; within two
// seconds of its return everything is as before.
func TestFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		if d, took := b.must(); d.Degraded || took != 0 {
			t.Fatal(d, took)
		}
		b.freeze()
		var waited time.Duration
		for range 10_000 { // ten seconds, a request each millisecond
			d, took := b.must()
			if waited += took; !d.Degraded || !d.Allowed {
				t.Fatalf("%+v", d)
			}
			time.Sleep(time.Millisecond)
		}
		if tries := b.fake.asked.Load() - 1 - lateFailures; tries < 10 || tries > 30 || waited > 30*12*time.Millisecond {
			t.Errorf("%d tries, and callers waited %v", tries, waited)
		}
		if s := b.Status(); s.Timeouts < 10 || s.Errors != 0 || s.Spared < 9000 || !errors.Is(s.Err, context.DeadlineExceeded) || s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
		b.fake.be(well())
		for back := time.Now(); b.Status().Away; time.Sleep(time.Millisecond) {
			if b.must(); time.Since(back) > time.Second {
				t.Fatal("still away")
			}
		}
		if d, took := b.must(); d.Degraded || took != 0 {
			t.Error(d, took)
		}
		if !slices.Equal(b.changes, []bool{true, false}) {
			t.Errorf("changes %v", b.changes)
		}
		if s := b.Status(); s.Err != nil {
			t.Error(s.Err)
		}
	})
}

// TestFrozenUnderLoad: all calls that wait for a store that freezes end at their own timeout, and
// so does one more; no later call waits, and no goroutine is left, as it would hold the bubble.
func TestFrozenUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.fake.be(frozen)
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() {
				d, took, err := b.one(context.Background())
				if err != nil || !d.Degraded {
					t.Error(d, err)
				}
				b.deadline(took)
			})
		}
		callers.Wait()
		b.away(false) // they all waited during the same ten milliseconds
		b.must()
		b.away(true)
		if n := len(b.gate.flights); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
	})
}

// TestBackoff: tries become rarer up to a bound, and a store that fails soon after it came back is
// tried more rarely than one that fails for the first time.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Timeout: 10 * time.Millisecond, Pause: 80 * time.Millisecond})
		pauses := func(n int) (list []time.Duration) {
			last := time.Now()
			for asked := b.fake.asked.Load(); n > 0; n-- {
				for b.fake.asked.Load() == asked {
					time.Sleep(100 * time.Microsecond)
					b.must()
				}
				asked = b.fake.asked.Load()
				list = append(list, time.Since(last))
				last = time.Now()
			}
			return list
		}
		within := func(list []time.Duration, least ...time.Duration) {
			t.Helper()
			for i, d := range list {
				// Plus or minus half of it is random, and each try waits for its timeout.
				if d < least[i]/2 || d > least[i]*3/2+12*time.Millisecond {
					t.Errorf("try %d came after %v, want %v", i, d, least[i])
				}
			}
		}
		const ms = time.Millisecond
		b.freeze()
		within(pauses(6), 10*ms, 20*ms, 40*ms, 80*ms, 80*ms, 80*ms)
		b.fake.be(well())
		pauses(1)
		b.away(false)
		b.freeze()
		within(pauses(1), 80*ms)
		b.fake.be(well())
		pauses(1)
		time.Sleep(80 * ms)
		b.freeze()
		within(pauses(2), 10*ms, 20*ms)
	})
}

// TestOneSlow: of one slow call among others that are answered, only that one follows its policy.
func TestOneSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		quick, first := slow(time.Millisecond), atomic.Bool{}
		b.fake.be(func(ctx context.Context, call *stint.Call) error {
			if first.CompareAndSwap(false, true) {
				return frozen(ctx, call)
			}
			return quick(ctx, call)
		})
		var one sync.WaitGroup
		one.Go(func() {
			if d, _ := b.must(); !d.Degraded {
				t.Errorf("%+v", d)
			}
		})
		synctest.Wait()
		for range 20 {
			if d, _ := b.must(); d.Degraded {
				t.Errorf("%+v", d)
			}
		}
		one.Wait()
		b.away(false)
		if s := b.Status(); s.Timeouts != 1 || len(b.changes) != 0 {
			t.Errorf("%+v, changes %v", s, b.changes)
		}
	})
}

// TestErrors: a number of errors in a row that come at once opens the breaker, if no call is
// answered within Timeout.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Failures: 3})
		fails := func(n int) {
			b.fake.be(refused)
			for range n {
				if d, took := b.must(); !d.Degraded || took != 0 {
					t.Error(d, took)
				}
			}
		}
		for range 2 {
			fails(2)
			time.Sleep(DefaultTimeout)
			b.away(false)
			b.fake.be(well())
			b.must()
		}
		fails(1000) // one of several servers is down
		b.away(false)
		time.Sleep(DefaultTimeout)
		fails(1)
		b.away(true)
		if s := b.Status(); s.Errors != 1005 || s.Timeouts != 0 || !errors.Is(s.Err, errRefused) {
			t.Errorf("%+v", s)
		}
	})
}

// TestLateErrors: a store that keeps the deadline itself, and returns its own error, counts as a
// timeout too.
func TestLateErrors(t *testing.T) {
	for _, late := range []error{context.DeadlineExceeded, errors.New("i/o timeout")} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Options{})
			b.fake.be(func(ctx context.Context, _ *stint.Call) error {
				deadline, ok := ctx.Deadline()
				if again, _ := ctx.Deadline(); !ok || again != deadline {
					t.Error("the deadline moves")
				}
				time.Sleep(time.Until(deadline))
				return late
			})
			for range lateFailures {
				b.away(false)
				if _, took := b.must(); took != DefaultTimeout {
					t.Errorf("took %v", took)
				}
			}
			b.away(true)
			if s := b.Status(); s.Timeouts != lateFailures {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestCaller: a caller that gives up, or whose deadline is earlier, gets its own error at once or
// nearly so, and its call does not count for the store.
func TestCaller(t *testing.T) {
	for _, test := range []struct {
		name   string
		during func(context.Context) (context.Context, context.CancelFunc)
		want   error
		after  time.Duration
	}{
		{"gone before", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, context.Canceled, 0},
		{"goes away", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(3*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled, 3 * time.Millisecond},
		{"has less time", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 5*time.Millisecond)
		}, context.DeadlineExceeded, 5 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Options{})
			b.fake.be(frozen)
			for range 3 {
				ctx, cancel := test.during(t.Context())
				_, took, err := b.one(ctx)
				cancel()
				if !errors.Is(err, test.want) || took < test.after || took > test.after+DefaultTimeout/checksPerTimeout {
					t.Errorf("%s: %v after %v", test.name, err, took)
				}
			}
			b.away(false)
			if s := b.Status(); s.Timeouts+s.Errors+s.Spared != 0 {
				t.Errorf("%s: %+v", test.name, s)
			}
		})
	}
}

// TestCallerGone: a caller that has given up when the store fails gets both errors.
func TestCallerGone(t *testing.T) {
	b := newBench(t, unhurried)
	ctx, cancel := context.WithCancel(t.Context())
	b.fake.be(func(context.Context, *stint.Call) error {
		cancel()
		return errRefused
	})
	if _, _, err := b.one(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, errRefused) {
		t.Error(err)
	}
	if s := b.Status(); s.Errors != 0 {
		t.Errorf("%+v", s)
	}
}

// TestCallerTries: if the caller of a try gives up, the next call tries.
func TestCallerTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.freeze()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := b.one(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		b.fake.be(well())
		if d, _ := b.must(); d.Degraded {
			t.Errorf("%+v", d)
		}
		b.away(false)
	})
}

// TestDeaf: a store that ignores its context blocks only the callers in it. All other calls are
// decided, the more calls are blocked the rarer the tries are, and all is well when it returns
// them.
func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		let := make(chan struct{})
		answer := well()
		b.fake.be(func(ctx context.Context, call *stint.Call) error {
			<-let
			return answer(ctx, call)
		})
		var held sync.WaitGroup
		hold := func() {
			held.Go(func() {
				if d, _, err := b.one(context.Background()); err != nil || d.Degraded {
					t.Error("held to the end, it has its answer:", d, err)
				}
			})
		}
		for range lateFailures {
			b.away(false)
			hold()
			time.Sleep(12 * time.Millisecond)
		}
		b.away(true)
		const minutes = 10
		for range minutes * 600 {
			asked := b.fake.asked.Load()
			done := make(chan struct{})
			held.Go(func() {
				defer close(done)
				if d, _, err := b.one(context.Background()); err != nil || !d.Allowed {
					t.Error(d, err)
				}
			})
			time.Sleep(100 * time.Millisecond)
			if b.fake.asked.Load() == asked {
				<-done
			}
		}
		if n := b.fake.asked.Load(); n < 20 || n > 70 {
			t.Errorf("%d calls held after %d minutes", n, minutes)
		}
		close(let)
		held.Wait()
		time.Sleep(time.Second)
		b.must()
		b.away(false)
		if d, _ := b.must(); d.Degraded {
			t.Errorf("%+v", d)
		}
	})
}

// TestPanic: a panic of the store reaches its caller, and counts as a failure.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Failures: 2})
		b.fake.be(func(context.Context, *stint.Call) error { panic("bug") })
		for range 2 {
			func() {
				defer func() {
					if r := recover(); r != "bug" {
						t.Errorf("recovered %v", r)
					}
				}()
				b.must()
			}()
			time.Sleep(DefaultTimeout)
		}
		b.away(true)
		if b.gate.active != 0 {
			t.Error("a call is still under way")
		}
	})
}

// TestWrongCall: the error of an invalid call is returned, whether the store is away or not, and is
// no failure of the store.
func TestWrongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Failures: 1})
		wrong := stint.Call{Takes: []stint.Take{{Limit: hour, Cost: 1}}}
		mixed := stint.Call{Takes: []stint.Take{{Key: "a", Limit: hour, Cost: 1}, {Key: "a", Limit: hour, Op: stint.Reset}}}
		for range 2 {
			if err := b.Decide(t.Context(), &wrong); !errors.Is(err, stint.ErrNoKey) {
				t.Error(err)
			}
			if err := b.Decide(t.Context(), &mixed); !errors.Is(err, stint.ErrMixedLimits) {
				t.Error(err)
			}
			time.Sleep(DefaultTimeout)
		}
		b.away(false)
		b.freeze()
		if err := b.Decide(t.Context(), &wrong); !errors.Is(err, stint.ErrNoKey) {
			t.Error(err)
		}
	})
}

// TestContext: the store gets the caller's context with a deadline, and may derive others from it.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		b := newBench(t, Options{})
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "caller's"), time.Millisecond)
		defer cancel()
		b.fake.be(func(ctx context.Context, _ *stint.Call) error {
			deadline, ok := ctx.Deadline()
			if ctx.Value(key{}) != "caller's" || !ok || time.Until(deadline) != time.Millisecond || ctx.Err() != nil {
				t.Errorf("value %v, deadline %v, %v", ctx.Value(key{}), deadline, ctx.Err())
			}
			child, stop := context.WithTimeout(ctx, time.Hour)
			defer stop()
			<-child.Done()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
				t.Error(ctx.Err(), child.Err())
			}
			return child.Err()
		})
		if _, _, err := b.one(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		b.away(false)
	})
}

// TestReuse: a call that was answered leaves nothing in the flight for the next one.
func TestReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.fake.be(slow(9 * time.Millisecond))
		for range 5 {
			if d, took := b.must(); d.Degraded || took != 9*time.Millisecond {
				t.Fatal(d, took)
			}
		}
		if n := len(b.gate.flights); n != 1 {
			t.Errorf("%d calls are kept", n)
		}
		b.fake.be(frozen)
		if _, took := b.must(); took < DefaultTimeout {
			t.Errorf("the time that an earlier call took is counted: %v", took)
		}
		var callers sync.WaitGroup
		b = newBench(t, Options{})
		b.fake.be(slow(time.Millisecond))
		for range 2 * maxSpare {
			callers.Go(func() { b.must() })
		}
		callers.Wait()
		if n := len(b.gate.flights); n != maxSpare {
			t.Errorf("%d calls are kept, want %d", n, maxSpare)
		}
	})
}

// TestCutOff: a call ends within an eighth of its timeout after it, however many checks fit into
// that.
func TestCutOff(t *testing.T) {
	for _, timeout := range []time.Duration{
		time.Millisecond, 2500 * time.Microsecond, 10 * time.Millisecond, 15 * time.Millisecond, 17 * time.Millisecond,
		23500 * time.Microsecond, 50 * time.Millisecond, 100 * time.Millisecond, time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Options{Timeout: timeout})
			b.fake.be(frozen)
			_, took := b.must()
			b.deadline(took)
		})
	}
}

// TestLateLooks: a call ends by the time that has passed, even if an idle machine wakes up late for
// each check.
func TestLateLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.init(&Options{Timeout: 10 * time.Millisecond}, 0, func(*gate) {})
		g.every = time.Hour // the test calls look
		f := g.enter(t.Context(), false)
		for _, step := range []struct {
			after time.Duration
			ended bool
		}{{2 * time.Millisecond, false}, {6 * time.Millisecond, false}, {3999 * time.Microsecond, false}, {time.Microsecond, true}} {
			time.Sleep(step.after) // in the bubble's time
			g.look()
			if ended := f.Err() != nil; ended != step.ended {
				t.Errorf("%v later: ended is %v", step.after, ended)
			}
		}
		g.leave(f, f.Err())
		if s := g.status(); s.Timeouts != 1 || s.Away {
			t.Errorf("%+v", s)
		}
	})
}

// TestOneLate: late answers do not open the breaker while others come in time, however few.
func TestOneLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		for range 100 {
			b.fake.be(frozen)
			for range lateFailures - 1 {
				b.must()
			}
			b.fake.be(well())
			if d, _ := b.must(); d.Degraded {
				t.Fatal("the breaker is open")
			}
		}
		if s := b.Status(); s.Timeouts != 100*(lateFailures-1) || len(b.changes) != 0 {
			t.Errorf("%+v, changes %v", s, b.changes)
		}
	})
}

// TestWaitsBefore: the timeout begins when the call is sent to the server. The wait before is
// bounded, and so is both together.
func TestWaitsBefore(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ waits, travels, want time.Duration }{
		{0, 9 * ms, 9 * ms},
		{0, 11 * ms, 0},
		{4 * ms, 9 * ms, 13 * ms},
		{4 * ms, 11 * ms, 0},
		{8 * ms, 6 * ms, 14 * ms},
		{8 * ms, 9 * ms, 0}, // 15 ms from the first check at most
		{12 * ms, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Options{})
			answer := well()
			b.fake.be(func(ctx context.Context, call *stint.Call) error {
				select {
				case <-time.After(test.waits):
				case <-ctx.Done():
					return ctx.Err()
				}
				ctx.Deadline() // it is sent
				select {
				case <-time.After(test.travels):
					return answer(ctx, call)
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			d, took := b.must()
			if test.want == 0 {
				if !d.Degraded || took > 15*ms+2*DefaultTimeout/checksPerTimeout {
					t.Errorf("%+v: %+v after %v, want a policy's answer", test, d, took)
				}
			} else if d.Degraded || took != test.want {
				t.Errorf("%+v: %+v after %v", test, d, took)
			}
			b.away(false)
		})
	}
}

// TestStall: if the process itself was suspended, timeouts do not count as the store's failures.
// Timeouts counts them all the same, as nothing was decided.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.init(&Options{Timeout: 10 * time.Millisecond}, 0, func(*gate) {})
		for i, test := range []struct {
			stood time.Duration
			away  bool
		}{{100 * time.Millisecond, false}, {0, true}} {
			for range lateFailures {
				f := g.enter(t.Context(), false)
				f.Deadline()
				g.timer.Stop() // no check runs in a suspended process
				time.Sleep(max(test.stood, 10*time.Millisecond))
				g.leave(f, context.DeadlineExceeded)
				g.looking = false
			}
			if s := g.status(); s.Away != test.away || s.Timeouts != uint64((i+1)*lateFailures) {
				t.Errorf("stood still for %v: %+v", test.stood, s)
			}
		}
	})
}

// TestStallOfCalls: time in which the process was suspended does not count for calls. Afterwards a
// call has the rest of its time, and ends after that.
func TestStallOfCalls(t *testing.T) {
	const rest = 4 * time.Millisecond
	for _, several := range []bool{false, true} {
		for _, leaves := range []bool{false, true} { // sent to the server, so that its deadline is known
			synctest.Test(t, func(t *testing.T) {
				var g gate
				g.init(&Options{Timeout: 10 * time.Millisecond}, 0, func(*gate) {})
				var calls []*flight
				for range lateFailures {
					calls = append(calls, g.enter(t.Context(), several))
					if leaves {
						calls[len(calls)-1].Deadline()
					}
				}
				time.Sleep(6*time.Millisecond + time.Microsecond) // in the bubble's time
				g.timer.Stop()                                    // no check runs in a suspended process
				time.Sleep(100 * time.Millisecond)
				g.look()
				time.Sleep(rest - 2*time.Millisecond)
				for _, f := range calls {
					if f.Err() != nil {
						t.Error("cut off for what was not the store's fault")
					}
				}
				time.Sleep(2*time.Millisecond + 2*10*time.Millisecond/checksPerTimeout)
				for _, f := range calls {
					if f.Err() == nil {
						t.Error("not cut off when its time was over")
					}
					g.leave(f, f.Err())
				}
			})
		}
	}
}
