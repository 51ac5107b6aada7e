package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint"
)

// Algorithms are the algorithms that a report compares, in this order.
var Algorithms = []stint.Algorithm{
	stint.FixedWindow, stint.TokenBucket, stint.LeakyBucket, stint.SlidingLog, stint.SlidingWindow,
}

// Field is a field of a log line that a limit counts by.
type Field uint8

// The fields, in the order of fieldNouns.
const (
	ByIP     Field = iota // the client's address, for IPv6 its /64, or the client's host name
	ByPath                // as sent, without the query
	ByMethod              // as sent
	ByUser                // the authenticated user
	ByAgent               // the User-Agent header
)

var fieldNames = [...]string{"ip", "path", "method", "user", "agent"}

// fieldNouns are the singular and plural of what each field stands for.
var fieldNouns = [][2]string{
	{"client", "clients"},
	{"path", "paths"},
	{"method", "methods"},
	{"user", "users"},
	{"user agent", "user agents"},
}

// String returns the name of the field in the text of a limit, such as "ip".
func (f Field) String() string {
	if int(f) < len(fieldNames) {
		return fieldNames[f]
	}
	return fmt.Sprintf("Field(%d)", uint8(f))
}

// Limit is one limit for a whole log, see [ParseLimit].
type Limit struct {
	// Text is the text that the user wrote. Reports show it.
	Text string

	// By are the fields by which the limit has separate buckets. If empty, all lines are counted
	// together. A line that lacks one of the fields is not limited; otherwise unrelated clients
	// would share a bucket.
	By []Field

	// Limit decides the lines.
	Limit *stint.Limit

	// Burst is the burst that the user gave; 0 for none. token_bucket and leaky_bucket use it even
	// if they are only compared.
	Burst uint32
}

// ParseLimit parses a limit such as "100/min by ip": N/UNIT, where UNIT is s, min, h, d or any
// duration (100/15m), then optionally "by" and one or more of ip, path, method, user and agent,
// joined by "+". The zero algorithm is a fixed window. With burst 0 the algorithm uses its default:
// requests for token_bucket, none for leaky_bucket. Under other algorithms burst matters only for
// the comparison with these two. The error is a [*stint.SpecError] with a hint.
func ParseLimit(text string, algorithm stint.Algorithm, burst uint32) (*Limit, error) {
	text = strings.Join(strings.Fields(text), " ")
	l := &Limit{Text: text, Burst: burst}
	rate, by, counted := strings.Cut(text, " by ")
	if !counted && (strings.HasSuffix(text, " by") || strings.HasPrefix(text, "by ") || text == "") {
		return nil, limitError(text, "is incomplete")
	}
	requests, per, err := parseRate(text, rate)
	if err != nil {
		return nil, err
	}
	if counted {
		if l.By, err = parseBy(by); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(Algorithms, algorithm) {
		return nil, &stint.SpecError{
			Field: "algorithm", Problem: fmt.Sprintf("%v cannot be replayed", algorithm),
			Hint: "known are token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_window",
		}
	}
	l.Limit, err = stint.NewLimit(plainSpec(algorithm, requests, per, burst))
	return l, err
}

// plainSpec returns a limit with only a rate and, if the algorithm has one, a burst.
func plainSpec(a stint.Algorithm, requests uint32, per time.Duration, burst uint32) stint.Spec {
	if a != stint.TokenBucket && a != stint.LeakyBucket {
		burst = 0
	}
	return stint.Spec{Algorithm: a, Requests: requests, Per: per, Burst: burst, RoundRate: true}
}

func limitError(text, problem string) error {
	return &stint.SpecError{
		Field: "limit", Problem: fmt.Sprintf("%q %s", text, problem),
		Hint: `write N/UNIT and what to count by, such as "100/min by ip" or "5/15m by ip+path"; units are s, min, h, d and durations such as 90s`,
	}
}

var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

// parseRate parses N/UNIT.
func parseRate(text, rate string) (uint32, time.Duration, error) {
	count, unit, ok := strings.Cut(rate, "/")
	if !ok {
		return 0, 0, limitError(text, "has no /")
	}
	count, unit = strings.TrimSpace(count), strings.TrimSpace(unit)
	requests, err := strconv.ParseUint(count, 10, 32)
	if err != nil {
		return 0, 0, limitError(text, fmt.Sprintf("does not begin with a number from 0 to 4294967295 but with %q", count))
	}
	if per, ok := units[unit]; ok {
		return uint32(requests), per, nil
	}
	per, ok := parseSpan(unit)
	if !ok {
		return 0, 0, limitError(text, fmt.Sprintf("has no unit or duration %q", unit))
	}
	return uint32(requests), per, nil
}

// parseSpan parses a Go duration, or days or weeks such as 7d.
func parseSpan(s string) (time.Duration, bool) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, true
	}
	if s == "" || s[len(s)-1] != 'd' && s[len(s)-1] != 'w' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 16)
	if err != nil {
		return 0, false
	}
	return time.Duration(n) * units[s[len(s)-1:]], true
}

// parseBy parses field names joined by "+".
func parseBy(text string) ([]Field, error) {
	var by []Field
	for word := range strings.SplitSeq(text, "+") {
		word = strings.TrimSpace(word)
		i := slices.Index(fieldNames[:], word)
		switch {
		case i < 0:
			return nil, &stint.SpecError{
				Field: "limit", Problem: fmt.Sprintf("cannot count by %q", word),
				Hint: "known are " + strings.Join(fieldNames[:], ", ") + ", also several joined by +, such as ip+path",
			}
		case slices.Contains(by, Field(i)):
			return nil, &stint.SpecError{
				Field: "limit", Problem: fmt.Sprintf("counts by %s twice", word),
				Hint: "name it once",
			}
		}
		by = append(by, Field(i))
	}
	return by, nil
}

// nouns returns the singular and plural of what the limit counts.
func (l *Limit) nouns() [2]string {
	switch len(l.By) {
	case 0:
		return fieldNouns[ByIP]
	case 1:
		return fieldNouns[l.By[0]]
	}
	return [2]string{"key", "keys"}
}
