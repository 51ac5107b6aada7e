package text

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)`)

// ErrNoUnit is the error of ParseDuration for a number alone.
var ErrNoUnit = errors.New("a number without a unit")

// ParseDuration parses a length of time as in Go, for example 1h30m or 250ms, and also in days (d,
// 24 hours) and weeks (w). It refuses negative ones.
func ParseDuration(text string) (time.Duration, error) {
	rest, sum := text, time.Duration(0)
	for rest != "" {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, durationFault(text)
		}
		rest = rest[len(m[0]):]
		one, factor := m[0], time.Duration(1)
		switch m[2] {
		case "d":
			one, factor = m[1]+"h", 24
		case "w":
			one, factor = m[1]+"h", 7*24
		}
		d, err := time.ParseDuration(one)
		if err != nil || d > math.MaxInt64/factor || sum > math.MaxInt64-d*factor {
			return 0, errors.New("longer than 292 years")
		}
		sum += d * factor
	}
	if text == "" {
		return 0, errors.New("no duration")
	}
	return sum, nil
}

// FormatDuration returns the shortest text that ParseDuration parses as d, for example 15m or 1d.
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"w", 7 * day}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if d >= u.d && d%u.d == 0 {
			return strconv.FormatInt(int64(d/u.d), 10) + u.name
		}
	}
	return d.String()
}

// ShortDuration returns d without the parts that are zero: 15m for 15m0s, 36h for 36h0m0s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if before, is := strings.CutSuffix(text, zero); is {
			text = before + zero[:1]
		}
	}
	return text
}

// durationFault returns the error for a text that is no duration.
func durationFault(text string) error {
	if strings.HasPrefix(text, "-") {
		return errors.New("a negative duration")
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return ErrNoUnit
	}
	return errors.New("no duration")
}

// RoughDuration formats a duration in its two largest units.
func RoughDuration(d time.Duration) string {
	day := 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
