package main

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"time"
)

// tally is what one worker of a bench counted, or all of them.
type tally struct {
	workers         int
	took            time.Duration
	allowed, denied uint64
	failed          uint64
	err             error // the first
	times           [maxBucket]uint64
	longest         time.Duration
}

const (
	// bucketBits is how exact a time is kept: to one part in 2^bucketBits.
	bucketBits = 4
	maxBucket  = 64 << bucketBits
)

// job is what one worker does.
type job struct {
	ask   target
	keys  []uint32 // asked for in turn, over and over
	most  uint64   // questions
	every uint64   // of how many answers one is timed: more where they are quicker than a clock
}

// work does a job until it is done or ctx is.
func (t *tally) work(ctx context.Context, j job) {
	for n := uint64(0); n < j.most; n++ {
		var began time.Time
		if n%j.every == 0 {
			if ctx.Err() != nil {
				return
			}
			began = time.Now()
		}
		allowed, err := j.ask(ctx, int(j.keys[n%uint64(len(j.keys))]))
		switch {
		case err != nil && ctx.Err() != nil:
			return // the time is up: nobody failed
		case err != nil:
			t.failed++
			if t.err == nil {
				t.err = err
			}
			continue
		case allowed:
			t.allowed++
		default:
			t.denied++
		}
		if !began.IsZero() {
			t.time(time.Since(began))
		}
	}
}

func (t *tally) time(d time.Duration) {
	t.times[bucket(d)]++
	t.longest = max(t.longest, d)
}

// bucket returns where a time is counted: 2^bucketBits buckets for each power of two.
func bucket(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 1<<bucketBits {
		return int(n)
	}
	shift := bits.Len64(n) - 1 - bucketBits
	return (shift+1)<<bucketBits | int(n>>shift)&(1<<bucketBits-1)
}

// bucketEnd returns the longest time of a bucket.
func bucketEnd(b int) time.Duration {
	if b < 1<<bucketBits {
		return time.Duration(b)
	}
	shift := b>>bucketBits - 1
	return time.Duration(uint64(1<<bucketBits|b&(1<<bucketBits-1))+1)<<shift - 1
}

func (t *tally) add(other *tally) {
	t.allowed += other.allowed
	t.denied += other.denied
	t.failed += other.failed
	if t.err == nil {
		t.err = other.err
	}
	for i, n := range other.times {
		t.times[i] += n
	}
	t.longest = max(t.longest, other.longest)
}

// quantile returns a time that the part q of the times does not exceed.
func (t *tally) quantile(q float64) time.Duration {
	total := uint64(0)
	for _, n := range t.times {
		total += n
	}
	rank, seen := uint64(q*float64(total)), uint64(0)
	for b, n := range t.times {
		if seen += n; seen > rank {
			return min(bucketEnd(b), t.longest)
		}
	}
	return t.longest
}

func (t *tally) print(w io.Writer) {
	answers := t.allowed + t.denied
	if answers == 0 {
		fmt.Fprintln(w, "decisions  none")
		return
	}
	each := time.Duration(float64(t.took) * float64(t.workers) / float64(answers))
	fmt.Fprintf(w, "decisions  %d in %v: %.0f per second, one in %v for each worker\n",
		answers, t.took.Round(time.Millisecond), float64(answers)/t.took.Seconds(), each)
	fmt.Fprintf(w, "allowed    %d (%.1f %%), denied %d\n", t.allowed, 100*float64(t.allowed)/float64(answers), t.denied)
	fmt.Fprintf(w, "times      p50 %v, p90 %v, p99 %v, longest %v\n", t.quantile(0.5), t.quantile(0.9), t.quantile(0.99), t.longest)
}
