package testkit

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// OpenLoop is a load of calls that arrive by a Poisson process, whether or not earlier calls have
// been answered. A closed loop, in which each caller waits for its answer before the next call,
// slows down with the server and so hides queues, deadlines and stalls.
type OpenLoop struct {
	Rate  float64 // average arrivals a second, above 0
	Count int     // number of arrivals
	Seed  uint64  // seed of the times of arrival
}

// TimedCall is the result of one arrival.
type TimedCall struct {
	Took time.Duration // since the planned time of arrival, so a late start counts
	Err  error
}

// Run calls ask for each arrival in its own goroutine and waits for all. It starts no more calls
// after ctx has ended. The results are in the order of arrival.
func (l OpenLoop) Run(ctx context.Context, ask func(i int) error) []TimedCall {
	next := l.gaps()
	calls := make([]TimedCall, 0, l.Count)
	var under sync.WaitGroup
	due := time.Now()
	for i := range l.Count {
		due = due.Add(next())
		Pause(time.Until(due))
		if ctx.Err() != nil {
			break
		}
		calls = append(calls, TimedCall{})
		call, arrived := &calls[i], due
		under.Go(func() {
			call.Err = ask(i)
			call.Took = time.Since(arrived)
		})
	}
	under.Wait()
	return calls
}

// gaps returns a function for random times between two arrivals.
func (l OpenLoop) gaps() func() time.Duration {
	random := rand.New(rand.NewPCG(l.Seed, 1))
	return func() time.Duration { return time.Duration(random.ExpFloat64() / l.Rate * float64(time.Second)) }
}

// CallSummary has the times of all calls of a run, and the number of failures.
type CallSummary struct {
	Calls, Failed   int
	P50, P99, Worst time.Duration
}

// SummarizeCalls returns the summary of a run; it is zero without calls.
func SummarizeCalls(calls []TimedCall) CallSummary {
	if len(calls) == 0 {
		return CallSummary{}
	}
	took := make([]time.Duration, len(calls))
	s := CallSummary{Calls: len(calls)}
	for i, c := range calls {
		took[i] = c.Took
		if c.Err != nil {
			s.Failed++
		}
	}
	slices.Sort(took)
	s.P50, s.P99, s.Worst = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	return s
}
