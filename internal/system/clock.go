package system

import (
	"sync/atomic"
	"time"

	"stint"
)

// Clock is the machine's time. It advances like the monotonic clock, and is set forward when the
// wall clock is. It is safe for concurrent use after Start.
type Clock struct {
	base   time.Time // time of Start, with its monotonic clock
	offset atomic.Int64
}

// Start sets the clock to a time that was just read.
func (c *Clock) Start(t time.Time) {
	c.base = t
	c.offset.Store(t.UnixMicro())
}

// Now returns the time.
func (c *Clock) Now() stint.Instant {
	return stint.Instant(c.offset.Load() + int64(time.Since(c.base)/time.Microsecond))
}

// Follow sets the clock forward if the wall clock was set forward or the machine has slept. It
// never sets it back, because that would only extend waits that clients were promised.
func (c *Clock) Follow() {
	if ahead := time.Now().UnixMicro() - int64(c.Now()); ahead > int64(time.Millisecond/time.Microsecond) {
		c.offset.Add(ahead)
	}
}
