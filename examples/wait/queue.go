package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

// queue limits arriving work: it drops alerts above the limit, lets webhooks wait, and puts jobs
// into a channel for a worker.
func queue(ctx context.Context, out io.Writer) error {
	store := memory.New(memory.Options{})
	for _, part := range []func(context.Context, io.Writer, stint.Store) error{alert, deliver, work} {
		if err := part(ctx, out, store); err != nil {
			return err
		}
	}
	return nil
}

// alert sends two alerts an hour and drops the others. There is one callback for each outcome.
func alert(ctx context.Context, out io.Writer, store stint.Store) error {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 2, Per: time.Hour})
	send := func(text string) { fmt.Fprintln(out, "alert:", text) }
	drop := func(text string, d stint.Decision) {
		fmt.Fprintf(out, "dropped: %s; the next may go in %v\n", text, d.RetryAfter.Round(time.Minute))
	}
	alerts := pace.NewFilter(pace.New(store, "alerts", limit), send, drop)
	for _, text := range []string{"disk 80 %", "disk 90 %", "disk 95 %"} {
		if _, err := alerts.Offer(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// deliver queues six webhooks and delivers ten a second, oldest first. One finds the
// queue full.
func deliver(ctx context.Context, out io.Writer, store stint.Store) error {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 1})
	began, left := time.Now(), 5
	var q *pace.Queue[string]
	q = pace.NewQueue(pace.New(store, "webhooks of customer 42", limit), func(_ context.Context, hook string) error {
		fmt.Fprintf(out, "%s after %v\n", hook, since(began)) // a program would send it here
		if left--; left == 0 {
			q.Close()
		}
		return nil
	}, pace.QueueOptions[string]{
		MaxItems: 5, MaxAge: time.Minute,
		Dropped: func(hook string, why pace.Reason) { fmt.Fprintln(out, hook, "dropped:", why) },
	})
	for i := range 6 {
		q.Offer(fmt.Sprintf("webhook %d", i))
	}
	return q.Run(ctx)
}

// work sends jobs to a channel at the rate of the limit. The worker that reads it needs no limit.
// Jobs that the worker has no time for wait in the queue.
func work(ctx context.Context, out io.Writer, store stint.Store) error {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: time.Second})
	q, jobs := pace.NewChannel(pace.New(store, "jobs", limit), pace.QueueOptions[string]{MaxItems: 3})
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()

	for i := range 3 {
		q.Offer(fmt.Sprintf("job %d", i))
	}
	began, done := time.Now(), 0
	for job := range jobs { // until the queue is closed
		fmt.Fprintf(out, "%s after %v\n", job, since(began))
		if done++; done == 3 {
			q.Close()
		}
	}
	fmt.Fprintf(out, "%d released, %d waiting\n", q.Stats().Released, q.Stats().Waiting)
	return <-ended
}
