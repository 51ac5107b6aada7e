package sketch

import "testing"

// A minute counts what it has, and of the one before what is not a minute ago yet.
func TestMinute(t *testing.T) {
	var m Minute
	for _, step := range []struct {
		at   int64 // in quarters of a minute
		add  uint64
		want float64
	}{{40, 8, 8}, {42, 0, 8}, {44, 0, 8}, {45, 4, 10}, {47, 0, 6}, {46, 0, 8}, {48, 0, 4}, {60, 1, 1}, {59, 0, 1}, {20, 3, 3}, {24, 0, 3}} {
		at := step.at * minuteLong / 4
		m.Advance(at)
		m.Add(step.add)
		if got := m.Last(at); got != step.want {
			t.Errorf("at %d quarters: %v, want %v", step.at, got, step.want)
		}
	}
}
