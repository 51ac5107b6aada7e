package limitjson

import (
	"testing"
	"time"

	"stint/rule"
)

func TestFormatSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		365 * 24 * time.Hour: "365d", 36 * time.Hour: "36h", 90 * time.Second: "90s", 15 * time.Minute: "15m",
		1500 * time.Millisecond: "1500ms", 1500 * time.Microsecond: "1.5ms",
	} {
		got := formatSpan(d)
		if back, err := rule.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v is written %q, want %q, and read as %v", d, got, want, back)
		}
	}
}
