// Command wait keeps a program under its own limit, in each possible way: waiting, reserving, not
// waiting, and charging afterwards. Then it queues work that arrives faster than the limit.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

func main() {
	for _, part := range []func(context.Context, io.Writer) error{send, queue} {
		if err := part(context.Background(), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "wait:", err)
			os.Exit(1)
		}
	}
}

// send sends mails: three at once, then ten a second. One Pacer serves any number of
// goroutines, first come first served.
func send(ctx context.Context, out io.Writer) error {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 3})
	mails := pace.New(memory.New(memory.Options{}), "mail", limit)
	for _, part := range []func(context.Context, io.Writer, *pace.Pacer) error{inTurn, tooLate, reserved, whatThereIs} {
		if err := part(ctx, out, mails); err != nil {
			return err
		}
		if err := mails.Reset(ctx); err != nil { // the next part begins with a full bucket
			return err
		}
	}
	return nil
}

// inTurn sends five mails as fast as the limit allows.
func inTurn(ctx context.Context, out io.Writer, mails *pace.Pacer) error {
	began := time.Now()
	for i := range 5 {
		if err := mails.Wait(ctx, 1); err != nil {
			return err
		}
		fmt.Fprintf(out, "mail %d after %v\n", i, since(began))
	}
	return nil
}

// tooLate asks for more than its deadline allows: it gets an error at once, and nothing is taken.
func tooLate(ctx context.Context, out io.Writer, mails *pace.Pacer) error {
	if err := mails.Wait(ctx, 3); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := mails.Wait(soon, 2)
	fmt.Fprintf(out, "too late, known after %v: %t\n", since(began), err != nil)
	return nil
}

// reserved reserves a time for a large mailing, and then cancels it.
func reserved(ctx context.Context, out io.Writer, mails *pace.Pacer) error {
	turn, err := mails.Reserve(ctx, 3, stint.Never)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the first mailing may go in %v\n", turn.Delay())
	turn, err = mails.Reserve(ctx, 3, time.Second) // within a second, or not at all
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the second in %v\n", turn.Delay().Round(100*time.Millisecond))
	if err := turn.GiveBack(ctx); err != nil {
		return err
	}
	// turn.Wait(ctx) would have waited until then.
	turn, err = mails.Reserve(ctx, 1, time.Second)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "given back, so a single mail in %v\n", turn.Delay().Round(100*time.Millisecond))
	return nil
}

// whatThereIs takes without waiting: first all that remains, and then more.
func whatThereIs(ctx context.Context, out io.Writer, mails *pace.Pacer) error {
	n, _, err := mails.TakeAtMost(ctx, 50)
	if err != nil {
		return err
	}
	wait, _, err := mails.Force(ctx, 1)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "of 50 mails %d go now; one that cannot wait costs %v\n", n, wait.Round(100*time.Millisecond))
	return nil
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
