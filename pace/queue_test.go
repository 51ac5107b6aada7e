package pace_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

// 42 in the minute before, 18 in the first 15 seconds of this one: 42*3/4 + 18 = 49.5,
// so one more of 50 is forwarded and the next is dropped.
func TestFilterOnSlidingWindow(t *testing.T) {
	now := stint.At(time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC))
	store := memory.New(memory.Options{Clock: func() stint.Instant { return now }})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 50, Per: time.Minute, Blocks: 1})
	var forwarded, dropped []string
	f := pace.NewFilter(pace.New(store, "callbacks", limit),
		func(item string) { forwarded = append(forwarded, item) },
		func(item string, d stint.Decision) { dropped = append(dropped, fmt.Sprint(item, " ", d.RetryAfter)) },
	)
	offer := func(n int, name string) {
		for range n {
			if _, err := f.Offer(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	offer(42, "before")
	now = stint.At(time.Date(2026, 1, 1, 12, 1, 15, 0, time.UTC))
	offer(18, "this minute")
	if len(forwarded) != 60 || len(dropped) != 0 {
		t.Fatalf("%d forwarded, %d dropped before it matters", len(forwarded), len(dropped))
	}
	offer(1, "one more")
	offer(1, "the next")
	// 42*(60-s)/60 must fall below 31, the least at s = 15.714286.
	if forwarded[60:][0] != "one more" || !slices.Equal(dropped, []string{"the next 714.286ms"}) {
		t.Errorf("forwarded %q, dropped %q", forwarded[60:], dropped)
	}
}

func TestFilterErrors(t *testing.T) {
	f := pace.NewFilter(pace.New(broken{}, "k", stint.MustLimit(fixed)),
		func(int) { t.Error("forwarded") }, func(int, stint.Decision) { t.Error("dropped") })
	if ok, err := f.Offer(t.Context(), 1); ok || !errors.Is(err, errBroken) {
		t.Errorf("got %v, %v", ok, err)
	}
	silent := pace.NewFilter(pace.New(memory.New(memory.Options{}), "k", stint.MustLimit(none)), func(int) { t.Error("forwarded") }, nil)
	if ok, err := silent.Offer(t.Context(), 1); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

// Items above the limit wait and are released oldest first as the limit allows; items that are too
// many, too old or too large are dropped and counted.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var got []string
		note := func(n int, what any) {
			got = append(got, fmt.Sprint(n, " ", what, " ", time.Since(begun)))
		}
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Burst: 3})
		q := pace.NewQueue(pace.New(bubble(), "k", limit), func(_ context.Context, n int) error {
			note(n, "released")
			if n == 1 {
				return errBroken
			}
			return nil
		}, pace.QueueOptions[int]{
			MaxItems: 4, MaxAge: 2500 * time.Millisecond,
			Cost:    func(n int) uint32 { return uint32(1 + n/10) },
			Dropped: func(n int, why pace.Reason) { note(n, why) },
		})
		ended := make(chan error)
		go func() { ended <- q.Run(t.Context()) }()
		for n := range 8 {
			if ok := q.Offer(n); ok != (n < 7) {
				t.Errorf("offer %d: %v", n, ok)
			}
			if n < 3 {
				synctest.Wait() // until it is released
			}
		}
		synctest.Wait()
		if s := q.Stats(); s.Waiting != 4 || s.Released != 3 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute) // fake time
		q.Offer(30)             // costs four units of three
		q.Offer(8)
		synctest.Wait()
		q.Offer(29) // needs three units, available in one second
		synctest.Wait()
		q.Close()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		q.Offer(9)
		want := []string{
			"0 released 0s", "1 released 0s", "2 released 0s", "7 full 0s",
			"3 released 1s", "4 released 2s", "5 late 2s", "6 late 2s",
			"30 too large 1m0s", "8 released 1m0s", "29 closed 1m0s", "9 closed 1m0s",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%q, want\n%q", got, want)
		}
		if s := q.Stats(); s != (pace.QueueStats{Released: 6, Failed: 1, Dropped: [4]uint64{1, 2, 1, 2}}) {
			t.Errorf("%+v", s)
		}
	})
}

// After an error no item is lost, and Run continues where it stopped.
func TestQueueRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{Store: bubble()}
		var got []int
		q := pace.NewQueue(pace.New(store, "k", stint.MustLimit(perSecond)), func(_ context.Context, n int) error {
			got = append(got, n)
			return nil
		}, pace.QueueOptions[int]{})
		for n := range 3 {
			q.Offer(n)
		}
		store.fails = true
		if err := q.Run(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("run: %v, want the store's error", err)
		}
		store.fails = false
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		ended := make(chan error)
		go func() { ended <- q.Run(ctx) }()
		synctest.Wait()
		if err := q.Run(ctx); !errors.Is(err, pace.ErrRunning) {
			t.Errorf("second run: %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
		if err := q.Run(within(t, time.Second/2)); !errors.Is(err, pace.ErrTooLate) {
			t.Errorf("run: %v", err)
		}
		if !slices.Equal(got, []int{0, 1}) {
			t.Errorf("released %v", got)
		}
		if err := q.Run(within(t, time.Minute)); !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("run: %v, released %v", err, got)
		}
	})
}

// failing is a store that fails on demand.
type failing struct {
	*memory.Store
	fails bool
}

func (f *failing) Decide(ctx context.Context, call *stint.Call) error {
	if f.fails {
		return errBroken
	}
	return f.Store.Decide(ctx, call)
}

// Through a channel, allowed items go to a receiver, oldest first. An item that nobody receives
// before it is too old is dropped, and its units are given back.
func TestChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Burst: 2})
		p := pace.New(bubble(), "k", limit)
		dropped := make(chan string, 10)
		q, out := pace.NewChannel(p, pace.QueueOptions[int]{
			MaxItems: 3, MaxAge: 5 * time.Second,
			Dropped: func(n int, why pace.Reason) { dropped <- fmt.Sprint(n, " ", why, " ", time.Since(begun)) },
		})
		ended := make(chan error)
		go func() { ended <- q.Run(t.Context()) }()
		receive := func(want int, at time.Duration) {
			t.Helper()
			if n, ok := <-out; !ok || n != want || time.Since(begun) != at {
				t.Errorf("received %d %v at %v, want %d at %v", n, ok, time.Since(begun), want, at)
			}
		}
		for n := range 5 {
			q.Offer(n)
			synctest.Wait() // the first is being sent, three wait
		}
		receive(0, 0)
		receive(1, 0)
		receive(2, time.Second)
		time.Sleep(10 * time.Second) // fake time; nobody receives
		if d, err := p.Peek(t.Context()); err != nil || d.Remaining != 2 {
			t.Errorf("%+v, %v after what was charged for the late one came back", d, err)
		}
		q.Offer(5)
		synctest.Wait()
		q.Offer(6)
		q.Close()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if n, ok := <-out; ok {
			t.Errorf("received %d from a closed queue", n)
		}
		close(dropped)
		got := slices.Sorted(each(dropped))
		if want := []string{"3 late 5s", "4 full 0s", "5 closed 11s", "6 closed 11s"}; !slices.Equal(got, want) {
			t.Errorf("dropped %q, want %q", got, want)
		}
		if s := q.Stats(); s != (pace.QueueStats{Released: 3, Dropped: [4]uint64{1, 1, 0, 2}}) {
			t.Errorf("%+v", s)
		}
	})
}

// each yields the values of a channel.
func each[T any](c <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range c {
			if !yield(v) {
				return
			}
		}
	}
}

// An item that was not received when Run ended is the first of the next Run. If the queue is closed
// between two Runs, the channel is closed.
func TestChannelRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, out := pace.NewChannel(pace.New(bubble(), "k", stint.MustLimit(perSecond)), pace.QueueOptions[int]{})
		for n := range 3 {
			q.Offer(n)
		}
		if err := q.Run(within(t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- q.Run(ctx) }()
		for want := range 2 {
			if n := <-out; n != want {
				t.Errorf("received %d, want %d", n, want)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
		q.Close()
		if n, ok := <-out; ok {
			t.Errorf("received %d from a closed queue", n)
		}
		if err := q.Run(t.Context()); err != nil {
			t.Errorf("run of a closed queue: %v", err)
		}
		q.Close()
		if s := q.Stats(); s != (pace.QueueStats{Released: 2, Dropped: [4]uint64{0, 0, 0, 1}}) {
			t.Errorf("%+v", s)
		}
	})
}
