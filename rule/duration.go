package rule

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"stint"
)

const day = 24 * time.Hour

// Unit is a word for a period. Month and year are of 30 and 365 days, as Envoy's
// service counts them; with a time zone a unit follows the calendar.
type Unit struct {
	Name     string
	Per      time.Duration
	Calendar stint.Period // none for units shorter than a day
}

var units = []Unit{
	{"second", time.Second, stint.NoPeriod},
	{"minute", time.Minute, stint.NoPeriod},
	{"hour", time.Hour, stint.NoPeriod},
	{"day", day, stint.Day},
	{"week", 7 * day, stint.Week},
	{"month", 30 * day, stint.Month},
	{"year", 365 * day, stint.Year},
}

// ParseUnit returns the unit of a name, in capitals or not.
func ParseUnit(name string) (Unit, bool) {
	for _, u := range units {
		if strings.EqualFold(name, u.Name) {
			return u, true
		}
	}
	return Unit{}, false
}

var durationPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w)`)

// ParseDuration reads a length of time as Go writes it, such as 1h30m or 250ms, and
// also in days (d, 24 hours) and weeks (w). It is not negative.
func ParseDuration(text string) (time.Duration, error) {
	rest, sum := text, time.Duration(0)
	for rest != "" {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, errors.New(durationFault(text))
		}
		rest = rest[len(m[0]):]
		part, factor := m[0], time.Duration(1)
		switch m[2] {
		case "d":
			part, factor = m[1]+"h", 24
		case "w":
			part, factor = m[1]+"h", 7*24
		}
		d, err := time.ParseDuration(part)
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

// durationFault says what is wrong with a text that is no duration.
func durationFault(text string) string {
	if strings.HasPrefix(text, "-") {
		return "a negative duration"
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return "a number without a unit"
	}
	return "no duration"
}
