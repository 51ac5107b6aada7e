package notify

import (
	"fmt"
	"testing"
	"time"
)

// As long as too many results cannot be stored, the receiver waits; one that is stored ends this.
func TestManyUnsaved(t *testing.T) {
	var u unsaved
	now := time.Now()
	for n := range mostUnsaved {
		if wait, _ := u.state(now); wait != 0 {
			t.Fatalf("with %d results it waits %v", n, wait)
		}
		u.add(result{delivery: Delivery{Event: event(n), State: Delivered}, at: now})
	}
	if wait, _ := u.state(now); wait != claimEvery {
		t.Errorf("it waits %v", wait)
	}
	u.forget(event(1).ID)
	if wait, _ := u.state(now); wait != 0 {
		t.Errorf("after one is stored it waits %v", wait)
	}
}

// A retry by hand ends a pause, and makes failed ones be sent again, but not those that the receiver has.
func TestForgetUnsaved(t *testing.T) {
	var u unsaved
	now := time.Now()
	for n, s := range []State{Delivered, Failed, Waiting} {
		u.add(result{Delivery{Event: event(n), State: s}, Then{time.Hour, time.Hour, s == Failed}, now})
	}
	u.forget("")
	if wait, disabled := u.state(now); wait != 0 || disabled {
		t.Errorf("it waits %v, disabled: %v", wait, disabled)
	}
	got := ""
	for n := range 3 {
		got += fmt.Sprint(u.known(&Delivery{Event: event(n)}, now), " ")
	}
	if got != "true false true " {
		t.Errorf("known are %s", got)
	}
}
