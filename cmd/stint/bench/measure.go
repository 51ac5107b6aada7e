package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"
)

// measureTarget decides for a key, a number from 0 on. All workers call it at the same time.
type measureTarget func(ctx context.Context, key int) (allowed bool, err error)

// measurePlan is the amount of work of a run.
type measurePlan struct {
	Workers int           // goroutines
	Keys    int           // number of keys; few are used often and many rarely (Zipf 1.1)
	For     time.Duration // duration
	Count   uint64        // most decisions; 0 for no limit

	// Every is how many decisions there are for each timed one: more than 1 if a decision takes
	// less time than reading a clock.
	Every uint64
}

// measureRun calls ask until the time or the count of the plan is reached.
func measureRun(ctx context.Context, p measurePlan, ask measureTarget) *measureResult {
	results, jobs := make([]measureResult, p.Workers), make([]job, p.Workers)
	for i := range jobs {
		jobs[i] = job{ask: ask, keys: draw(uint64(i), p.Keys), most: p.share(uint64(i)), every: p.Every}
	}
	ctx, cancel := context.WithTimeout(ctx, p.For)
	defer cancel()
	began := time.Now()
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i].work(ctx, jobs[i]) })
	}
	group.Wait()
	total := &measureResult{took: time.Since(began), workers: p.Workers}
	for i := range results {
		total.add(&results[i])
	}
	return total
}

// share returns how many decisions worker i makes.
func (p *measurePlan) share(i uint64) uint64 {
	if p.Count == 0 {
		return math.MaxUint64
	}
	share := p.Count / uint64(p.Workers)
	if i < p.Count%uint64(p.Workers) {
		share++
	}
	return share
}

// draw returns the keys of a worker, which it repeats.
func draw(seed uint64, keys int) []uint32 {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), 1.1, 1, uint64(keys-1))
	drawn := make([]uint32, 1<<17)
	for i := range drawn {
		drawn[i] = uint32(zipf.Uint64())
	}
	return drawn
}

// measureResult has the counts of one worker, or of all.
type measureResult struct {
	workers         int
	took            time.Duration
	allowed, denied uint64
	failed          uint64
	err             error // the first error
	times           [maxBucket]uint64
	longest         time.Duration
}

// Failed returns how many decisions failed, and the error of one of them.
func (t *measureResult) Failed() (n uint64, err error) { return t.failed, t.err }

const (
	// bucketBits is the precision of a time: one part in 2^bucketBits.
	bucketBits = 4
	maxBucket  = 64 << bucketBits
)

// job is the work of one worker.
type job struct {
	ask   measureTarget
	keys  []uint32 // used in turn, repeated
	most  uint64   // most decisions
	every uint64   // see measurePlan.Every
}

// work does a job until it is complete or ctx ends.
func (t *measureResult) work(ctx context.Context, j job) {
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
			return // the time is up, which is no failure
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

func (t *measureResult) time(d time.Duration) {
	t.times[bucket(d)]++
	t.longest = max(t.longest, d)
}

// bucket returns the index of the counter for a time. There are 2^bucketBits counters for each
// power of two.
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

func (t *measureResult) add(other *measureResult) {
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

// quantile returns a time that is at least as long as the fraction q of all times.
func (t *measureResult) quantile(q float64) time.Duration {
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

// Print writes the result as a few lines of text.
func (t *measureResult) Print(w io.Writer) {
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
