package system

import (
	"sync/atomic"
	"time"

	"stint"
)

// Clock is the machine's clock, which runs as evenly as its monotonic clock and is set
// forward when the wall clock was. It is safe for concurrent use once it was started.
type Clock struct {
	base   time.Time // of the monotonic clock
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

// Follow sets the clock forward to the wall clock where that has been set, or the machine
// has slept. It never sets it back: that would only lengthen waits that were promised.
func (c *Clock) Follow() {
	if ahead := time.Now().UnixMicro() - int64(c.Now()); ahead > int64(time.Millisecond/time.Microsecond) {
		c.offset.Add(ahead)
	}
}
