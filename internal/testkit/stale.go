package testkit

import (
	"testing"
	"time"

	"stint"
)

// StaleClock is a clock whose reader can be suspended after reading it.
type StaleClock struct {
	// Holds reports whether the reader holds all keys of its call, so that other callers of these
	// wait for the end of its call.
	Holds func() bool

	now       stint.Instant
	meanwhile func() // what other callers do before the next reader continues; nil: nothing
}

// NewStaleClock returns a clock that shows noon of some day.
func NewStaleClock() *StaleClock {
	return &StaleClock{func() bool { return false }, stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), nil}
}

// Read reads the clock.
func (c *StaleClock) Read() stint.Instant {
	read := c.now
	if c.meanwhile != nil {
		c.meanwhile()
	}
	return read
}

// Hold suspends the next reader for d after it has read the clock; at the end of d it calls others.
func (c *StaleClock) Hold(d time.Duration, others func()) {
	c.meanwhile = func() {
		c.now, c.meanwhile = c.now.Add(d), nil
		others()
	}
}

// StaleTime lets a caller of a store read the clock and then suspends it for 13 ms, in which other
// callers use up the same limits. The caller's old time must not give anything back. StaleTime does
// this for each read of the clock in a call. A caller that holds all keys when it reads the clock is
// not suspended, as the others wait for it; they follow its call. The keys of the takes refill in a
// second, 1000 units at most. At first StaleTime takes one unit of each, so that they exist.
func StaleTime(t testing.TB, open func(*StaleClock) stint.Store, takes ...stint.Take) {
	t.Helper()
	clock := NewStaleClock()
	store := open(clock)
	passes := func() bool {
		d, _ := stint.Combine(Decide(t, store, takes...))
		return d.Allowed
	}
	if !passes() {
		t.Fatal("a fresh key has nothing")
	}
	for read, waited := 1, false; !waited; read++ {
		clock.now = clock.now.Add(900 * time.Millisecond)
		clock.Hold(13*time.Millisecond, func() {
			for n := 0; passes(); n++ {
				if n > 2000 {
					t.Fatal("it is never used up")
				}
			}
		})
		others, reads := clock.meanwhile, 0
		clock.meanwhile = func() {
			if reads++; reads >= read && !clock.Holds() {
				others()
			}
		}
		passed := passes()
		if waited = clock.meanwhile != nil; waited {
			others()
		} else if passed {
			t.Errorf("read %d: it passes, of what is used up", read)
		}
		if passes() {
			t.Errorf("read %d: something came back", read)
		}
	}
}
