package testkit

import (
	"testing"
	"time"

	"stint"
)

// StaleTime has a caller of a store read the clock and then stand still for 13 ms, in which others
// use up what it asks for. What it read lies before their writes, and gives nothing back for that.
// The takes are of keys that a second of the clock fills, 1000 units at once; at first each costs
// one unit, of a key that should be known.
func StaleTime(t testing.TB, open func(clock func() stint.Instant) stint.Store, takes ...stint.Take) {
	t.Helper()
	now, meanwhile := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), func() {}
	store := open(func() stint.Instant {
		read, others := now, meanwhile
		meanwhile = func() {}
		others()
		return read
	})
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
	now = now.Add(900 * time.Millisecond)
	meanwhile = func() {
		now = now.Add(13 * time.Millisecond)
		for n := 0; passes(); n++ {
			if n > 2000 {
				t.Fatal("it is never used up")
			}
		}
	}
	if passes() {
		t.Error("it passes, of what is used up")
	}
	if passes() {
		t.Error("something came back")
	}
}
