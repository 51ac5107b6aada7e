package testkit

import (
	"testing"
	"time"

	"stint"
)

// StaleClock is a clock whose reader may stand still with what it read.
type StaleClock struct {
	now       stint.Instant
	meanwhile func() // what others do before the next reader goes on; nil: nothing
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

// Hold has the next reader stand still for d once it has read, and others do something at the end of
// that.
func (c *StaleClock) Hold(d time.Duration, others func()) {
	c.meanwhile = func() {
		c.now = c.now.Add(d)
		others()
	}
}

// StaleTime has a caller of a store read the clock and then stand still for 13 ms, in which others
// use up what it asks for. What it read lies before their writes, and gives nothing back for that.
// The takes are of keys that a second of the clock fills, 1000 units at once; at first each costs
// one unit, of a key that should be known.
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
