package text_test

import (
	"testing"
	"time"

	"stint/internal/text"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want time.Duration
		err  string
	}{
		{"1s", time.Second, ""},
		{"1h30m", 90 * time.Minute, ""},
		{"250ms", 250 * time.Millisecond, ""},
		{"10us", 10 * time.Microsecond, ""},
		{"10µs", 10 * time.Microsecond, ""},
		{"1d", 24 * time.Hour, ""},
		{"1.5d", 36 * time.Hour, ""},
		{"2w", 14 * 24 * time.Hour, ""},
		{"1w1d1h", 193 * time.Hour, ""},
		{"0s", 0, ""},
		{"", 0, "no duration"},
		{"0", 0, "a number without a unit"},
		{"60", 0, "a number without a unit"},
		{"1.5", 0, "a number without a unit"},
		{"-1s", 0, "a negative duration"},
		{"1 s", 0, "no duration"},
		{"1mo", 0, "no duration"},
		{"s", 0, "no duration"},
		{"1D", 0, "no duration"},
		{"99999999w", 0, "longer than 292 years"},
		{"15000w15000w", 0, "longer than 292 years"},
		{"99999999999999999999h", 0, "longer than 292 years"},
	} {
		got, err := text.ParseDuration(tt.text)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%q: %v, %v, want %v, %s", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", 15 * time.Minute: "15m", time.Hour: "1h", 36 * time.Hour: "36h",
		90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 10 * time.Second: "10s",
	} {
		if got := text.ShortDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
