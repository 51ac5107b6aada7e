package stint

import (
	"math"
	"time"
)

// Instant is a point in time, in whole microseconds since the Unix epoch. Where a time is optional,
// the zero Instant means "not given".
type Instant int64

// MaxInstant is the latest time that a store computes with, in the year 2062. A state can be
// MaxFill later, so that all times fit in 52 bits and in a float64.
const MaxInstant = endOfTime - Instant(MaxFill/time.Microsecond)

// endOfTime is the latest time in a state, in the year 2112.
const endOfTime Instant = 1<<52 - 1

// At returns t as an Instant, rounded down to the microsecond.
func At(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time returns the instant as a time in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Add returns the instant d later, rounded down to the microsecond.
func (i Instant) Add(d time.Duration) Instant {
	if d%time.Microsecond < 0 {
		d -= time.Microsecond
	}
	return i + Instant(d/time.Microsecond)
}

// Sub returns i - j. It saturates instead of overflowing.
func (i Instant) Sub(j Instant) time.Duration { return span(int64(i) - int64(j)) }

// Future reports whether i is so much later than now that the clock that showed it must have run
// ahead. Two correct clocks differ by less than five seconds.
func (i Instant) Future(now Instant) bool { return i > now+skew }

// span converts microseconds to a Duration. It saturates below Never.
func span(micros int64) time.Duration {
	const most = (math.MaxInt64 - 1) / int64(time.Microsecond)
	return time.Duration(min(micros, most)) * time.Microsecond
}
