package system

import (
	"testing"
	"time"

	"stint"
)

func TestLatest(t *testing.T) {
	noon := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var l Latest
	for _, step := range []struct{ now, want time.Duration }{
		{0, 0},
		{time.Second, time.Second},
		{0, time.Second},
		{-4 * time.Second, time.Second},
		{-4*time.Second - time.Microsecond, -4*time.Second - time.Microsecond},
		{0, 0},
	} {
		if got := l.Of(noon.Add(step.now)); got != noon.Add(step.want) {
			t.Errorf("at %v: %v, want %v", step.now, got.Sub(noon), step.want)
		}
	}
}
