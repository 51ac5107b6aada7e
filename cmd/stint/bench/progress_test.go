package bench

import (
	"testing"

	"stint/loadtest"
)

// A narrow terminal shows fewer numbers, so that the bar keeps to one line.
func TestDescribe(t *testing.T) {
	now := loadtest.Progress{Allowed: 1234, Denied: 56, Errors: 1}
	for columns, want := range map[int]string{
		80: "1,234 allowed, 56 denied, 1 error", 33: "1,234 allowed, 56 denied, 1 error",
		32: "1,234 allowed, 56 denied", 24: "1,234 allowed, 56 denied",
		23: "1,234 allowed", 13: "1,234 allowed",
		12: "", 0: "",
	} {
		if got := describe(now, columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
}
