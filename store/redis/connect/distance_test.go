package connect

import (
	"testing"
	"time"
)

func TestDistance(t *testing.T) {
	var d Distance
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		after, took, want time.Duration
		groups            int
	}{
		{0, 3 * time.Millisecond, 3 * time.Millisecond, 60},
		{time.Second, time.Millisecond, time.Millisecond, 20},
		{time.Second, 5 * time.Millisecond, time.Millisecond, 20},
		{6 * time.Second, 5 * time.Millisecond, time.Millisecond, 20},     // from the interval before
		{6 * time.Second, 4 * time.Millisecond, 4 * time.Millisecond, 80}, // that interval counts no more
		{time.Second, 60 * time.Microsecond, 60 * time.Microsecond, 1},
		{12 * time.Second, time.Hour, 60 * time.Microsecond, 1},
		{12 * time.Second, time.Hour, time.Hour, maxDistance},
	} {
		at = at.Add(step.after)
		d.Add(step.took, at)
		if got := d.Shortest(); got != step.want || d.Groups() != step.groups {
			t.Errorf("step %d: %v, %d groups; want %v, %d", i, got, d.Groups(), step.want, step.groups)
		}
	}
}
