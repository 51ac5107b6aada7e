package pace_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

// Two at once, then one each tenth of a second.
func Example() {
	ctx := context.Background()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 2})
	p := pace.New(memory.New(memory.Options{}), "mail", limit)

	begun := time.Now()
	for i := range 4 {
		if err := p.Wait(ctx, 1); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(i, time.Since(begun).Round(100*time.Millisecond))
	}

	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err := p.Wait(short, 2) // two are there in a fifth of a second
	fmt.Println("refused at once:", errors.Is(err, pace.ErrTooLate))
	// Output:
	// 0 0s
	// 1 0s
	// 2 100ms
	// 3 200ms
	// refused at once: true
}

// A reservation says when, and can be given back.
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

// The other verbs.
func ExamplePacer() {
	ctx := context.Background()
	clock := func() stint.Instant { return stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 60, Per: time.Minute, Burst: 10})
	p := pace.New(memory.New(memory.Options{Clock: clock}), "tokens", limit)

	d, _ := p.Take(ctx, 7)
	fmt.Println("take 7:", d.Allowed)
	n, _, _ := p.TakeUpTo(ctx, 5)
	fmt.Println("take up to 5:", n)
	wait, _, _ := p.Force(ctx, 20)
	fmt.Println("force 20: a debt of", wait)
	_ = p.Reset(ctx)
	d, _ = p.Take(ctx, 7)
	d, _ = p.GiveBack(ctx, 2, &d)
	fmt.Println("take 7, give 2 back:", d.Remaining, "left")
	// Output:
	// take 7: true
	// take up to 5: 3
	// force 20: a debt of 20s
	// take 7, give 2 back: 5 left
}
