package lease

import (
	"sync"
	"sync/atomic"
	"time"
)

// Moment is a time by two clocks of one machine, in nanoseconds: Mono, which nobody sets
// but which may stand still while the machine sleeps, and Wall, which does not.
type Moment struct{ Mono, Wall int64 }

// Add returns the moment d later.
func (m Moment) Add(d time.Duration) Moment { return Moment{m.Mono + int64(d), m.Wall + int64(d)} }

// reached says whether m is at or after an end, by either clock.
func (m Moment) reached(end Moment) bool { return m.Mono >= end.Mono || m.Wall >= end.Wall }

// since returns how long ago an earlier moment was, by the clock that nobody sets.
func (m Moment) since(earlier Moment) time.Duration {
	return max(0, time.Duration(m.Mono-earlier.Mono))
}

// clocks reads both clocks of this machine, for the price of one: the wall clock only
// where it was last read more than wallAge ago. A machine that falls asleep in between is
// noticed all the same: it stops processes first and lets them go on last, and the clock
// that nobody sets stands still only while its devices are asleep too, which takes far
// longer than wallAge to come about and to end. A wall clock that is set back, or a process
// that stands still, is noticed by that clock.
type clocks struct {
	start time.Time
	ahead atomic.Int64 // of the wall clock, nanoseconds
	read  atomic.Int64 // when that was, by the clock that nobody sets
	mu    sync.Mutex   // of who reads both
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

// both reads both.
func (c *clocks) both() Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	m := Moment{int64(now.Sub(c.start)) + 1, now.UnixNano()}
	c.ahead.Store(m.Wall - m.Mono) // before the time of it: who finds that finds this
	c.read.Store(m.Mono)
	return m
}
