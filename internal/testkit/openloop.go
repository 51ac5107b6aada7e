package testkit

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// OpenLoop is how many calls arrive, and how often: by Poisson's law, whether or not those before
// them have been answered. A closed loop, in which each caller waits for its answer before it asks
// again, slows down with what it measures and so hides queues, deadlines and stalls.
type OpenLoop struct {
	Rate  float64 // arrivals a second on average, above 0
	Count int     // how many arrive in all
	Seed  uint64  // of the times of arrival
}

// TimedCall is what became of one arrival.
type TimedCall struct {
	Took time.Duration // from when it was due to arrive: a late start counts
	Err  error
}

// Run starts ask for each arrival in a goroutine of its own and waits for all. It stops
// starting calls when ctx ends. The result is in the order of arrival.
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

// gaps returns what draws how long after each arrival the next one is due.
func (l OpenLoop) gaps() func() time.Duration {
	random := rand.New(rand.NewPCG(l.Seed, 1))
	return func() time.Duration { return time.Duration(random.ExpFloat64() / l.Rate * float64(time.Second)) }
}

// CallSummary is what a run's calls took, all of them, and how many failed.
type CallSummary struct {
	Calls, Failed   int
	P50, P99, Worst time.Duration
}

// SummarizeCalls returns the summary of a run; the zero Summary of no calls.
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
