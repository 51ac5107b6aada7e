package sketch

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latencySteps are eight to a power of two of nanoseconds, up to 2^36 (69 s).
const latencySteps = 36 * 8

// Latency estimates quantiles of durations, those since the last Rotate and those between the one before and it. Its
// zero value is empty. It is safe for concurrent use.
type Latency struct {
	counts [2][latencySteps]atomic.Uint32
	turn   atomic.Uint32 // the half that counts now
}

// Observe adds a duration.
func (l *Latency) Observe(d time.Duration) {
	n := max(uint64(d), 8)
	octave := bits.Len64(n) - 1
	step := octave*8 + int(n>>(octave-3)&7)
	l.counts[l.turn.Load()&1][min(step, latencySteps-1)].Add(1)
}

// Rotate forgets the older durations.
func (l *Latency) Rotate() {
	next := (l.turn.Load() + 1) & 1
	for i := range l.counts[next] {
		l.counts[next][i].Store(0)
	}
	l.turn.Store(next)
}

// Quantiles returns the median and the 99th percentile, at most 13 % too long; 0: nothing was measured.
func (l *Latency) Quantiles() (median, p99 time.Duration) {
	var counts [latencySteps]uint64
	total := uint64(0)
	for i := range counts {
		counts[i] = uint64(l.counts[0][i].Load()) + uint64(l.counts[1][i].Load())
		total += counts[i]
	}
	below := uint64(0)
	for i, n := range counts {
		below += n
		upper := time.Duration(uint64(9+i%8) << max(i/8-3, 0))
		if median == 0 && n > 0 && below*2 >= total {
			median = upper
		}
		if n > 0 && below*100 >= total*99 {
			return median, upper
		}
	}
	return median, p99
}
