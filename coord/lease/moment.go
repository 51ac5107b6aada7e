package lease

import "time"

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

// clock reads both clocks of this machine.
func clock() func() Moment {
	start := time.Now()
	return func() Moment {
		now := time.Now()
		return Moment{int64(now.Sub(start)) + 1, now.UnixNano()}
	}
}
