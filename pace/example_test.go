package pace_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

// Two at once, then one every 100 ms.
func Example() {
	ctx := context.Background()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 2})
	p := pace.New(memory.New(memory.Options{}), "mail", limit)

	begun := time.Now()
	for range 4 {
		if err := p.Wait(ctx, 1); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("four take at least a fifth of a second:", time.Since(begun) >= 200*time.Millisecond)

	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, _, err := p.Force(ctx, 1000); err != nil { // causes a debt of 100 s
		fmt.Println(err)
		return
	}
	err := p.Wait(short, 1)
	fmt.Println("refused at once:", errors.Is(err, pace.ErrTooLate))
	// Output:
	// four take at least a fifth of a second: true
	// refused at once: true
}

// A reservation has a time and can be given back.
func ExamplePacer_Reserve() {
	ctx := context.Background()
	clock := func() stint.Instant { return stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Hour})
	p := pace.New(memory.New(memory.Options{Clock: clock}), "report", limit)

	for _, within := range []time.Duration{0, stint.Never, time.Hour} {
		r, err := p.Reserve(ctx, 1, within)
		if err != nil {
			fmt.Println("refused:", err)
			continue
		}
		fmt.Println("in", r.Delay().Round(time.Minute))
	}
	// Output:
	// in 0s
	// in 1h0m0s
	// refused: cost 1: allowed too late: not before 2h0m0s from now
}

// The other methods.
func ExamplePacer() {
	ctx := context.Background()
	clock := func() stint.Instant { return stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 60, Per: time.Minute, Burst: 10})
	p := pace.New(memory.New(memory.Options{Clock: clock}), "tokens", limit)

	d, _ := p.Take(ctx, 7)
	fmt.Println("take 7:", d.Allowed)
	n, _, _ := p.TakeAtMost(ctx, 5)
	fmt.Println("take at most 5:", n)
	wait, _, _ := p.Force(ctx, 20)
	fmt.Println("force 20: a debt of", wait)
	_ = p.Reset(ctx)
	d, _ = p.Take(ctx, 7)
	d, _ = p.GiveBack(ctx, 2, &d)
	fmt.Println("take 7, give 2 back:", d.Remaining, "left")
	// Output:
	// take 7: true
	// take at most 5: 3
	// force 20: a debt of 20s
	// take 7, give 2 back: 5 left
}

// Two alerts an hour are sent; the others are only counted.
func ExampleFilter() {
	clock := func() stint.Instant { return stint.At(time.Date(2026, 1, 1, 0, 45, 0, 0, time.UTC)) }
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 2, Per: time.Hour})
	p := pace.New(memory.New(memory.Options{Clock: clock}), "alerts", limit)
	send := func(text string) { fmt.Println("send:", text) }
	drop := func(text string, d stint.Decision) {
		fmt.Println("drop:", text, "- the next in", d.RetryAfter.Round(time.Minute))
	}
	alerts := pace.NewFilter(p, send, drop)
	for _, text := range []string{"disk 80 %", "disk 90 %", "disk 95 %"} {
		if _, err := alerts.Offer(context.Background(), text); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// send: disk 80 %
	// send: disk 90 %
	// drop: disk 95 % - the next in 15m0s
}

// Items above the limit wait; of five, one finds no room.
func ExampleQueue() {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 100, Per: time.Second})
	p := pace.New(memory.New(memory.Options{}), "webhooks", limit)
	done := make(chan struct{})
	q := pace.NewQueue(p, func(_ context.Context, n int) error {
		fmt.Println("deliver", n)
		if n == 3 {
			close(done)
		}
		return nil
	}, pace.QueueOptions[int]{
		MaxItems: 4, MaxAge: time.Minute,
		Dropped: func(n int, why pace.Reason) { fmt.Println("drop", n, "-", why) },
	})
	for n := range 5 {
		q.Offer(n)
	}
	go func() {
		<-done
		q.Close()
	}()
	if err := q.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println("released:", q.Stats().Released)
	// Output:
	// drop 4 - full
	// deliver 0
	// deliver 1
	// deliver 2
	// deliver 3
	// released: 4
}

// The same through a channel: two workers receive the released items.
func ExampleNewChannel() {
	ctx := context.Background()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 100, Per: time.Second})
	p := pace.New(memory.New(memory.Options{}), "webhooks", limit)
	q, out := pace.NewChannel(p, pace.QueueOptions[string]{MaxItems: 100, MaxAge: time.Minute})
	for _, name := range []string{"paid", "shipped", "delivered"} {
		q.Offer(name)
	}
	ran := make(chan error)
	go func() { ran <- q.Run(ctx) }()

	var workers sync.WaitGroup
	var delivered atomic.Int32
	for range 2 {
		workers.Go(func() {
			for range out {
				if delivered.Add(1) == 3 {
					q.Close() // closes the channel out
				}
			}
		})
	}
	workers.Wait()
	fmt.Println("delivered", delivered.Load(), "and ended with", <-ran)
	// Output: delivered 3 and ended with <nil>
}
