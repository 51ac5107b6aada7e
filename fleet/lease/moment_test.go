package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// The wall clock may jump at any time: who asks for the time again more than wallAge later
// is told.
func TestClocksNoticeJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := clocks{start: time.Now()}
			c.both()
			time.Sleep(wallAge - time.Nanosecond) // by the clock of a bubble
			c.ahead.Add(int64(-jump))             // as if it had been read before it jumped
			if m := c.now(); m.Mono != int64(wallAge) || m.Wall != time.Now().Add(-jump).UnixNano() {
				t.Errorf("%+v", m)
			}
			time.Sleep(time.Nanosecond)
			if m := c.now(); m.Mono != int64(wallAge)+1 || m.Wall != time.Now().UnixNano() {
				t.Errorf("jump of %v: %+v, and it is %d", jump, m, time.Now().UnixNano())
			}
		})
	}
}

// Each reading equals time.Now, except for the time between the two calls.
func TestClocksAgree(t *testing.T) {
	c := clocks{start: time.Now()}
	c.both()
	last := c.now()
	for range 100_000 {
		before := time.Now()
		m := c.now()
		after := time.Now()
		if m.Mono < last.Mono || m.Mono <= int64(before.Sub(c.start)) || m.Mono > int64(after.Sub(c.start))+1 {
			t.Fatalf("%+v after %+v, between %v and %v", m, last, before.Sub(c.start), after.Sub(c.start))
		}
		last = m
	}
	if ahead := time.Since(time.Unix(0, last.Wall)); ahead < 0 || ahead > time.Minute {
		t.Errorf("the wall clock is %v further", ahead)
	}
}
