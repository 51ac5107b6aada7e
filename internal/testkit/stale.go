package testkit

import (
	"testing"
	"time"

	"stint"
)

// StaleClock is a clock whose reader can be suspended after reading it.
type StaleClock struct {
	now       stint.Instant
	meanwhile func() // what other callers do before the next reader continues; nil: nothing
}

// NewStaleClock returns a clock that shows noon of some day.
func NewStaleClock() *StaleClock {
	return &StaleClock{now: stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
}

// Read reads the clock.
func (c *StaleClock) Read() stint.Instant {
	read, others := c.now, c.meanwhile
	if c.meanwhile = nil; others != nil {
		others()
	}
	return read
}

// Hold suspends the next reader for d after it has read the clock; at the end of d it calls others.
func (c *StaleClock) Hold(d time.Duration, others func()) {
	c.meanwhile = func() {
		c.now = c.now.Add(d)
		others()
	}
}

// StaleTime lets a caller of a store read the clock and then suspends it for 13 ms, in which other
// callers use up the same limits. The caller's old time must not give anything back. The keys of
// the takes refill in a second, 1000 units at most. At first StaleTime takes one unit of each, so
// that they exist.
func StaleTime(t testing.TB, open func(clock func() stint.Instant) stint.Store, takes ...stint.Take) {
	t.Helper()
	clock := NewStaleClock()
	store := open(clock.Read)
	passes := func() bool {
		all := true
		for _, d := range Decide(t, store, takes...) {
			all = all && d.Allowed
		}
		return all
	}
	if !passes() {
		t.Fatal("a fresh key has nothing")
	}
	clock.now = clock.now.Add(900 * time.Millisecond)
	clock.Hold(13*time.Millisecond, func() {
		for n := 0; passes(); n++ {
			if n > 2000 {
				t.Fatal("it is never used up")
			}
		}
	})
	if passes() {
		t.Error("it passes, of what is used up")
	}
	if passes() {
		t.Error("something came back")
	}
}
