package pace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

// start is the initial time of manual clocks.
const start = stint.Instant(1_767_225_600_000_000)

func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(bubble(), "k", stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Burst: 3}))
		ctx, cancel := context.WithCancel(t.Context())
		take := func(cost uint32, allowed bool, remaining int64, retry time.Duration) {
			t.Helper()
			d, err := p.Take(t.Context(), cost)
			if err != nil || d.Allowed != allowed || d.Remaining != remaining || d.RetryAfter != retry {
				t.Errorf("take %d: %+v, %v", cost, d, err)
			}
		}
		take(0, true, 3, 0)
		take(2, true, 1, 0)
		take(2, false, 1, time.Second)
		done := make(chan error)
		go func() { done <- p.Wait(ctx, 3) }()
		synctest.Wait()
		take(1, false, 0, 3*time.Second) // one unit is available, but another caller waits for three
		take(4, false, 0, stint.Never)
		take(0, true, 1, 0)
		if n, _, err := p.TakeAtMost(t.Context(), 2); n != 0 || err != nil {
			t.Errorf("took %d past a waiter, %v", n, err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		take(1, true, 0, 0)
	})
}

// between is a store in which others take units before some of its calls.
type between struct {
	*memory.Store
	take []func() // one function for each call
}

func (b *between) Decide(ctx context.Context, call *stint.Call) error {
	if len(b.take) > 0 {
		do := b.take[0]
		b.take = b.take[1:]
		do()
	}
	return b.Store.Decide(ctx, call)
}

func TestTakeAtMost(t *testing.T) {
	ten := stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Hour}
	for _, test := range []struct {
		name   string
		spec   stint.Spec
		others []uint32 // units that others take before each call to the store; a second call finds less
		n      uint32
		want   uint32
		left   int64
	}{
		{"less than there is", ten, nil, 4, 4, 6},
		{"all there is", ten, nil, 10, 10, 0},
		{"more than there is", ten, []uint32{7}, 10, 3, 0},
		{"more than ever", ten, nil, stint.MaxCost, 10, 0},
		{"nothing", ten, []uint32{10}, 5, 0, 0},
		{"in one step", ten, []uint32{2, 2, 2}, 9, 8, 0},
		{"none asked", ten, nil, 0, 0, 0},
		{"fixed_window", stint.Spec{Requests: 10, Per: time.Hour}, []uint32{7}, 5, 3, 0},
		{"overdraw", stint.Spec{Requests: 10, Per: time.Hour, Overdraw: true}, []uint32{7}, 5, 3, 0},
		{"least distance", stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Hour, MinInterval: time.Minute}, []uint32{1}, 5, 0, 9},
		{"limit of none", none, nil, 5, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			limit := stint.MustLimit(test.spec)
			store := &between{Store: memory.New(memory.Options{Clock: func() stint.Instant { return start }})}
			for _, n := range test.others {
				store.take = append(store.take, func() { store.Take("k", limit, n) })
			}
			n, d, err := pace.New(store, "k", limit).TakeAtMost(t.Context(), test.n)
			if n != test.want || d.Remaining != test.left || err != nil {
				t.Errorf("took %d, %d left, %v; want %d, %d left", n, d.Remaining, err, test.want, test.left)
			}
		})
	}
}

// Force returns the wait of its debt, and every caller waits for the debt.
func TestForce(t *testing.T) {
	bucket := stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 5}
	for _, test := range []struct {
		name       string
		spec       stint.Spec
		used, cost uint32
		want       time.Duration
		retry      time.Duration // RetryAfter of a take of one unit after it
	}{
		{"nothing", bucket, 5, 0, 0, 100 * time.Millisecond},
		{"within", bucket, 2, 3, 0, 100 * time.Millisecond},
		{"debt", bucket, 2, 4, 100 * time.Millisecond, 200 * time.Millisecond},
		{"more than it holds", bucket, 0, 25, 2 * time.Second, 2100 * time.Millisecond},
		{"in steps", steps, 2, 1, time.Second, time.Second},
		{"in steps, more than it holds", steps, 0, 5, 3 * time.Second, 2 * time.Second},
		{"leaky", leaky, 0, 2, 0, time.Second},
		{"leaky, behind others", leaky, 2, 2, 2 * time.Second, 3 * time.Second},
		{"fixed_window", fixed, 2, 1, time.Second, time.Second},
		{"fixed_window, more than it holds", fixed, 0, 9, time.Second, time.Second},
		{"sliding_log", slidingLog, 2, 1, time.Second, time.Second},
		{"limit of none", none, 0, 1, stint.Never, stint.Never},
		{"overdraw", stint.Spec{Requests: 2, Per: time.Second, Overdraw: true}, 2, 1, time.Second, time.Second},
		{"unlimited", stint.Spec{Algorithm: stint.Unlimited}, 0, 1, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			limit := stint.MustLimit(test.spec)
			store := memory.New(memory.Options{Clock: func() stint.Instant { return start }})
			store.Take("k", limit, test.used)
			wait, _, err := pace.New(store, "k", limit).Force(t.Context(), test.cost)
			if wait != test.want || err != nil {
				t.Errorf("costs %v, %v; want %v", wait, err, test.want)
			}
			if d := store.Take("k", limit, 1); d.RetryAfter != test.retry {
				t.Errorf("one more is denied for %v, want %v", d.RetryAfter, test.retry)
			}
		})
	}
}

func TestGiveBackAndReset(t *testing.T) {
	store := memory.New(memory.Options{Clock: func() stint.Instant { return start }})
	p := pace.New(store, "k", stint.MustLimit(stint.Spec{Requests: 5, Per: time.Minute}))
	check := func(want int64) {
		t.Helper()
		if d, err := p.Peek(t.Context()); d.Remaining != want || err != nil {
			t.Errorf("%d remain, %v; want %d", d.Remaining, err, want)
		}
	}
	d, err := p.Take(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	check(1)
	if _, err := p.GiveBack(t.Context(), 3, &d); err != nil {
		t.Fatal(err)
	}
	check(4)
	if err := p.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(5)
}

// A pause stops every method except Force, which adds it to its wait; a later, shorter pause does
// not end it.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(bubble(), "k", stint.MustLimit(stint.Spec{Requests: 100, Per: time.Hour}))
		p.Pause(10 * time.Second)
		p.Pause(time.Second)
		if d, err := p.Take(t.Context(), 1); d.Allowed || d.RetryAfter != 10*time.Second || err != nil {
			t.Errorf("take: %+v, %v", d, err)
		}
		if n, _, err := p.TakeAtMost(t.Context(), 1); n != 0 || err != nil {
			t.Errorf("took %d, %v", n, err)
		}
		if wait, _, err := p.Force(t.Context(), 1); wait != 10*time.Second || err != nil {
			t.Errorf("force waits %v, %v", wait, err)
		}
		begun := time.Now()
		if err := p.Wait(within(t, 9*time.Second), 1); !errors.Is(err, pace.ErrTooLate) || time.Since(begun) != 0 {
			t.Errorf("wait: %v after %v", err, time.Since(begun))
		}
		first := make(chan error)
		go func() { first <- p.Wait(t.Context(), 1) }()
		synctest.Wait()
		if err := p.Wait(within(t, 10*time.Second), 1); !errors.Is(err, pace.ErrTooLate) || time.Since(begun) != 0 {
			t.Errorf("wait behind another: %v after %v", err, time.Since(begun))
		}
		time.AfterFunc(5*time.Second, func() { p.Pause(8 * time.Second) })
		if err := p.Wait(t.Context(), 1); err != nil || time.Since(begun) != 13*time.Second || p.Paused() != 0 {
			t.Errorf("wait: %v after %v", err, time.Since(begun))
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// A budget limits the units until it ends or is replaced.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(bubble(), "k", stint.MustLimit(stint.Spec{Requests: 100, Per: time.Hour}))
		p.Budget(3, time.Minute)
		begun := time.Now()
		wait := func(ctx context.Context, at time.Duration, want error) {
			t.Helper()
			if err := p.Wait(ctx, 1); !errors.Is(err, want) || time.Since(begun) != at {
				t.Errorf("wait: %v after %v, want %v after %v", err, time.Since(begun), want, at)
			}
		}
		wait(t.Context(), 0, nil)
		if n, _, err := p.TakeAtMost(t.Context(), 9); n != 2 || err != nil {
			t.Errorf("took %d, %v", n, err)
		}
		if d, err := p.Take(t.Context(), 1); d.Allowed || d.RetryAfter != time.Minute || err != nil {
			t.Errorf("take: %+v, %v", d, err)
		}
		time.AfterFunc(2*time.Second, func() { p.Budget(p.Passed()+1, 30*time.Second) })
		wait(within(t, time.Second), time.Second, context.DeadlineExceeded)
		wait(within(t, 3*time.Second), 2*time.Second, nil)
		wait(t.Context(), 32*time.Second, nil)
	})
}
