package grpclimit

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Expired pauses are removed, even those of keys that are never used again.
func TestPausesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pauses{until: make(map[string]time.Time)}
		for i := range 10_000 {
			p.set(strconv.Itoa(i), time.Now().Add(3*time.Second))
			<-time.After(time.Second)
		}
		if n := len(p.until); n > 100 {
			t.Errorf("%d pauses are kept, where 3 are on", n)
		}
	})
}

// set never shortens a pause.
func TestPauseStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pauses{until: make(map[string]time.Time)}
		p.set("a", time.Now().Add(time.Minute))
		p.set("a", time.Now().Add(time.Second))
		if left := p.left("a"); left != time.Minute {
			t.Errorf("%v are left, want 1m", left)
		}
		<-time.After(time.Minute)
		if left := p.left("a"); left > 0 || len(p.until) > 0 {
			t.Errorf("%v are left after a minute, and %d pauses kept", left, len(p.until))
		}
	})
}
