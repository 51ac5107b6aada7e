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

// reached reports whether m is at or after an end, by either clock.
func (m Moment) reached(end Moment) bool { return m.Mono >= end.Mono || m.Wall >= end.Wall }

// since returns the time since an earlier moment, by the monotonic clock.
func (m Moment) since(earlier Moment) time.Duration {
	return max(0, time.Duration(m.Mono-earlier.Mono))
}

// clocks reads both clocks of this machine for about the cost of one: it reads the wall clock only if the
// last reading is older than wallAge. It still notices when the machine sleeps. A machine stops processes
// first and resumes them last, and the monotonic clock stops only while the devices sleep too, which takes
// far longer than wallAge to begin and to end. It notices by the monotonic clock when the wall clock was
// set back or the process stood still.
type clocks struct {
	start time.Time
	ahead atomic.Int64 // of the wall clock, nanoseconds
	read  atomic.Int64 // when ahead was measured, by the monotonic clock
	mu    sync.Mutex   // held while both are read
}

// wallAge is how old a reading of the wall clock may be.
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
	c.ahead.Store(m.Wall - m.Mono) // before the time of it: who finds that finds this
	c.read.Store(m.Mono)
	return m
}
