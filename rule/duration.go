package rule

import (
	"strings"
	"time"

	"stint"
	"stint/internal/text"
)

const day = 24 * time.Hour

// Unit is a word for a period. Month and year are of 30 and 365 days, as Envoy's
// service counts them; with a time zone a unit follows the calendar.
type Unit struct {
	Name     string
	Per      time.Duration
	Calendar stint.Period // none for units shorter than a day
}

// Units returns the words that a rule file may use.
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

// ParseUnit returns the unit of a name, in capitals or not.
func ParseUnit(name string) (Unit, bool) {
	for _, u := range units {
		if strings.EqualFold(name, u.Name) {
			return u, true
		}
	}
	return Unit{}, false
}

// ParseDuration reads a length of time as Go writes it, such as 1h30m or 250ms, and
// also in days (d, 24 hours) and weeks (w). It is not negative.
func ParseDuration(written string) (time.Duration, error) { return text.ParseDuration(written) }
