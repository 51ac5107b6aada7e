package sketch

import (
	"testing"
	"time"
)

// A week of history of a hundred busy rules takes at most 2 MB, and no more after another week.
func TestHistorySize(t *testing.T) {
	size := func(weeks int) (bytes, points int) {
		var h History
		at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		for i := range weeks * 7 * 24 * 60 {
			h.Record(at, Numbers{900_000 + uint64(i*7919%500_000), 30_000 + uint64(i*104729%90_000), uint64(i % 3)})
			at = at.Add(time.Minute)
		}
		for _, c := range h.Minutes.Chunks {
			bytes += cap(c.Data) + 56
			points += c.Steps
		}
		for _, c := range h.Tens.Chunks {
			bytes += cap(c.Data) + 56
			points += c.Steps
		}
		return bytes, points
	}
	one, points := size(1)
	two, _ := size(2)
	t.Logf("%d points of a rule take %d bytes; 100 rules %d KB", points, one, one/10)
	if one > 20_000 || two > 21_000 {
		t.Errorf("a rule takes %d bytes after a week, %d after two", one, two)
	}
	if points < 24*60+7*24*6-10 {
		t.Errorf("%d points", points)
	}
}
