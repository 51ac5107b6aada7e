package lease

import (
	"sync"
	"sync/atomic"
	"time"
)

// Moment is a time by two clocks of one machine, in nanoseconds. Mono is the monotonic clock: it is never
// set, but may stop while the machine sleeps. Wall is the wall clock: it goes on, but may be set.
type Moment struct{ Mono, Wall int64 }

// Add returns the moment d later.
func (m Moment) Add(d time.Duration) Moment { return Moment{m.Mono + int64(d), m.Wall + int64(d)} }

// reached reports whether m is at or after end, by either clock.
func (m Moment) reached(end Moment) bool { return m.Mono >= end.Mono || m.Wall >= end.Wall }

// since returns the time since an earlier moment, by the monotonic clock.
func (m Moment) since(earlier Moment) time.Duration {
	return max(0, time.Duration(m.Mono-earlier.Mono))
}

// clocks reads both clocks of this machine for about the cost of one. It reads the wall clock
// only if the last reading is older than wallAge. It still notices when the machine sleeps: a
// machine stops processes first and resumes them last, and its monotonic clock stops only while
// its devices sleep, which takes far longer than wallAge. It also notices that the wall clock was
// set back or the process stood still.
type clocks struct {
	start time.Time
	ahead atomic.Int64 // wall clock minus monotonic clock, in nanoseconds
	read  atomic.Int64 // when ahead was measured, by the monotonic clock
	mu    sync.Mutex   // held while both are read
}

// wallAge is the largest age of a reading of the wall clock.
const wallAge = 100 * time.Microsecond

func (c *clocks) now() Moment {
	mono := int64(time.Since(c.start)) + 1
	if mono-c.read.Load() >= int64(wallAge) {
		return c.both()
	}
	return Moment{mono, mono + c.ahead.Load()}
}

// both reads both clocks.
func (c *clocks) both() Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	m := Moment{int64(now.Sub(c.start)) + 1, now.UnixNano()}
	c.ahead.Store(m.Wall - m.Mono) // before read, so that a reader of the new read sees the new ahead
	c.read.Store(m.Mono)
	return m
}
