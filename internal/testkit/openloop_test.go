package testkit

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"
)

// A call without an answer does not delay later calls.
func TestArrivalsDoNotWait(t *testing.T) {
	const count = 200
	var arrived atomic.Int64
	all := make(chan struct{})
	calls := OpenLoop{Rate: 100_000, Count: count, Seed: 1}.Run(t.Context(), func(int) error {
		if arrived.Add(1) == count {
			close(all)
		}
		<-all // a closed loop would wait here forever
		return nil
	})
	if len(calls) != count {
		t.Errorf("%d calls, want %d", len(calls), count)
	}
}

func TestRate(t *testing.T) {
	load := OpenLoop{Rate: 2000, Count: 400, Seed: 7}
	begin := time.Now()
	load.Run(t.Context(), func(int) error { return nil })
	if took := time.Since(begin); took < 150*time.Millisecond {
		t.Errorf("400 arrivals at 2000 a second took %v, want about 200ms", took)
	}
}

// The gaps between arrivals have the distribution of a Poisson process, and are the same for the
// same seed.
func TestArrivals(t *testing.T) {
	const count, mean = 100_000, time.Millisecond
	load := OpenLoop{Rate: 1000, Seed: 7}
	next, again := load.gaps(), load.gaps()
	load.Seed++
	other, same := load.gaps(), 0
	var sum time.Duration
	longer := [4]int{} // gaps longer than 1, 2, 3 and 4 times the mean
	for range count {
		gap := next()
		if gap != again() {
			t.Fatal("the same seed gives other arrivals")
		}
		if gap == other() {
			same++
		}
		sum += gap
		for n := range longer {
			if gap > time.Duration(n)*mean {
				longer[n]++
			}
		}
	}
	if got := sum / count; got < mean*98/100 || got > mean*102/100 {
		t.Errorf("the mean is %v, want %v", got, mean)
	}
	for n, got := range longer {
		if want := count * math.Exp(-float64(n)); math.Abs(float64(got)-want) > count/100 {
			t.Errorf("%d of %d are longer than %d times the mean, want %.0f", got, count, n, want)
		}
	}
	if same > count/100 {
		t.Errorf("another seed gives %d times the same", same)
	}
}

func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := OpenLoop{Rate: 10_000, Count: 1_000_000, Seed: 1}.Run(ctx, func(i int) error {
		if i == 50 {
			cancel()
		}
		return nil
	})
	if n := len(calls); n < 51 || n > 500_000 {
		t.Errorf("%d calls started although the context ended at the 51st", n)
	}
}

func TestSummarize(t *testing.T) {
	if got := SummarizeCalls(nil); got != (CallSummary{}) {
		t.Errorf("of nothing: %+v", got)
	}
	var calls []TimedCall
	for i := range 200 {
		c := TimedCall{Took: time.Duration(200 - i)}
		if i < 3 {
			c.Err = errors.New("late")
		}
		calls = append(calls, c)
	}
	if got, want := SummarizeCalls(calls), (CallSummary{Calls: 200, Failed: 3, P50: 101, P99: 199, Worst: 200}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
