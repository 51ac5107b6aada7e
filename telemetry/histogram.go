package telemetry

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// The upper bounds of the buckets are powers of two of nanoseconds, from 2^firstBucket (128 ns) to
// 2^lastBucket (1.07 s); one more bucket has no bound.
const (
	firstBucket = 7
	lastBucket  = 30
	buckets     = lastBucket - firstBucket + 2
)

// histogram counts durations. It has several shards, so that CPUs do not compete for the same cache
// lines.
type histogram struct {
	shards [8]shard
}

type shard struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Uint64 // in nanoseconds
	_      [64]byte
}

// observe counts a duration, which must not be negative.
func (h *histogram) observe(d time.Duration) {
	bucket := 0
	if d > 1<<firstBucket {
		bucket = min(bits.Len64(uint64(d-1))-firstBucket, buckets-1)
	}
	s := &h.shards[rand.Uint32()%uint32(len(h.shards))]
	s.counts[bucket].Add(1)
	s.sum.Add(uint64(d))
}

// read returns the count and sum of all durations, and the cumulative count of each bucket by its
// upper bound in seconds.
func (h *histogram) read() (count uint64, sum float64, below map[float64]uint64) {
	below = make(map[float64]uint64, buckets-1)
	for bucket := range buckets {
		for i := range h.shards {
			count += h.shards[i].counts[bucket].Load()
		}
		if bucket < buckets-1 {
			below[float64(uint64(1)<<(firstBucket+bucket))/1e9] = count
		}
	}
	for i := range h.shards {
		sum += float64(h.shards[i].sum.Load()) / 1e9
	}
	return count, sum, below
}
