package rule

import (
	"strings"
	"time"

	"stint"
	"stint/internal/text"
)

const day = 24 * time.Hour

// Unit is the name of a period. A month has 30 days and a year 365, as in Envoy's service; with a
// time zone they follow the calendar.
type Unit struct {
	Name     string
	Per      time.Duration
	Calendar stint.Period // none for units shorter than a day
}

// Units returns the units that a rule file may name.
func Units() []Unit { return units }

var units = []Unit{
	{"second", time.Second, stint.NoPeriod},
	{"minute", time.Minute, stint.NoPeriod},
	{"hour", time.Hour, stint.NoPeriod},
	{"day", day, stint.Day},
	{"week", 7 * day, stint.Week},
	{"month", 30 * day, stint.Month},
	{"year", 365 * day, stint.Year},
}

// ParseUnit returns the unit with that name; case does not matter.
func ParseUnit(name string) (Unit, bool) {
	for _, u := range units {
		if strings.EqualFold(name, u.Name) {
			return u, true
		}
	}
	return Unit{}, false
}

// ParseDuration parses a duration in Go's form, for example 1h30m or 250ms, and also days (d, 24
// hours) and weeks (w). Negative durations are an error.
func ParseDuration(written string) (time.Duration, error) { return text.ParseDuration(written) }
