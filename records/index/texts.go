package index

import (
	"fmt"
	"strings"
	"time"

	"stint/internal/text"
)

// The longest texts of a record, in bytes.
const (
	MaxSubject = 1 << 10 // a subject or a pattern
	MaxName    = 256     // the name of a rule, a plan or a group
	MaxText    = 4 << 10 // notes, and the reason of a change
)

// LastYear is the last year that has four digits.
const LastYear = 9999

// Fault is what is wrong with a text or a time of a record; Problem is "" if nothing is.
type Fault struct{ Problem, Hint string }

// CheckSubject checks a text KEY=VALUE.
func CheckSubject(subject string) Fault {
	if f := CheckEntry(subject); f.Problem != "" {
		return f
	}
	if strings.Contains(subject, "*") {
		return Fault{text.Shorten(subject) + " has a star, which only patterns of overrides have", "name one subject, or make an override"}
	}
	return Fault{}
}

// CheckEntry checks a subject or a pattern, except for its stars.
func CheckEntry(subject string) Fault {
	const example = "write KEY=VALUE as in a descriptor, such as user=42"
	switch key, value, both := strings.Cut(subject, "="); {
	case subject == "":
		return Fault{"missing", example}
	case len(subject) > MaxSubject:
		return Fault{fmt.Sprintf("%d bytes, at most %d", len(subject), MaxSubject), "use a shorter identifier of the client, such as its account number"}
	case !both, key == "", value == "":
		return Fault{text.Shorten(subject) + " is no entry", example}
	case !text.Printable(subject):
		return Fault{text.Quote(subject) + " has control characters or is not UTF-8", "check the encoding of the input"}
	}
	return Fault{}
}

// CheckName checks the name of a rule, a plan or a group.
func CheckName(name string) Fault {
	switch {
	case len(name) > MaxName:
		return Fault{fmt.Sprintf("%d bytes, at most %d", len(name), MaxName), "use a shorter name"}
	case !text.Printable(name):
		return Fault{text.Quote(name) + " has control characters or is not UTF-8", "check the encoding of the input"}
	}
	return Fault{}
}

// CheckText checks notes or a reason, which may have several lines.
func CheckText(words string) Fault {
	switch {
	case len(words) > MaxText:
		return Fault{fmt.Sprintf("%d bytes, at most %d", len(words), MaxText), "shorten it, and refer to a ticket"}
	case !text.PrintableLines(words):
		return Fault{"has control characters or is not UTF-8", "check the encoding of the input"}
	}
	return Fault{}
}

// CheckUntil checks the end of a record and rounds it up to a second, so that a record is in force for
// the whole length of time that was asked for. The zero time means that the record has no end.
func CheckUntil(until *time.Time, now time.Time) Fault {
	if until.IsZero() {
		*until = time.Time{}
		return Fault{}
	}
	given := until.UTC()
	*until = given.Add(time.Second - 1).Truncate(time.Second)
	switch {
	case !given.After(now):
		return Fault{
			fmt.Sprintf("%s is not in the future; it is %s now", given.Format(time.RFC3339), now.UTC().Format(time.RFC3339)),
			"name a later time, or delete the record to end it now",
		}
	case until.Year() > LastYear:
		return Fault{"after the year 9999", "leave it out for a record without an end"}
	}
	return Fault{}
}

// CheckPer checks the period of an override, which is 0 for that of the rule.
func CheckPer(per, least, most time.Duration) Fault {
	switch {
	case per%time.Microsecond != 0:
		return Fault{per.String() + " is not in whole microseconds", "round it to a microsecond"}
	case per != 0 && (per < least || per > most):
		return Fault{
			fmt.Sprintf("%s is not between %s and %s", text.FormatDuration(per), text.FormatDuration(least), text.FormatDuration(most)),
			"write a duration such as 1m or 1d",
		}
	}
	return Fault{}
}

// CheckPattern checks the stars of a pattern, which is an entry.
func CheckPattern(pattern string) Fault {
	key, value, _ := strings.Cut(pattern, "=")
	switch {
	case strings.Contains(key, "*"):
		return Fault{"a star before the equals sign", "name the key of the entry, such as user=test-*"}
	case strings.Trim(value, "*") == "":
		return Fault{text.Shorten(pattern) + " matches everybody", "write a longer pattern, or change the rule itself"}
	case strings.Contains(value, "**"):
		return Fault{"two stars in a row", "write one, which matches any text"}
	}
	return Fault{}
}
