package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Report is what a replay found. Its JSON begins with the fields of the stable
// interface, up to algorithms; those behind them may grow.
type Report struct {
	// Lines is how many lines the inputs have; each is parsed or unparseable.
	Lines       int64 `json:"lines"`
	Parsed      int64 `json:"parsed"`
	Unparseable int64 `json:"unparseable"`

	// Late is how many parsed lines came after the reorder window had left their time.
	Late int64 `json:"late"`

	// Allowed and Denied are what became of the parsed lines. What a leaky_bucket
	// delays is allowed.
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`

	// Rules are all rules in order of their files, or the one limit, named by its
	// text. Each counts what it was asked and how it answered by itself: where
	// several rules apply to a line, a rule may allow what another denies. A line that
	// costs it nothing does not ask.
	Rules []RuleCount `json:"rules"`

	// Clients are the 20 with most denied, then most lines, then the smallest key.
	// By a limit, the key is the value that it counts by, several joined by "+", and
	// IPv6 addresses are cut to their /64; for rules and for a limit that counts all
	// lines together it is the client's address.
	Clients []ClientCount `json:"clients"`

	// Algorithms are the same requests and periods under each algorithm, see
	// Comparison.
	Algorithms []AlgorithmCount `json:"algorithms"`

	// Limit is the text of the limit, "" for rules.
	Limit string `json:"limit"`
	// Algorithm is the algorithm of the limit, "" for rules.
	Algorithm string `json:"algorithm"`
	// ClientKind is what Clients are, such as "clients" or "paths".
	ClientKind string `json:"client_kind"`

	// First and Last are the times of the first and last line; zero without lines.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`

	// Formats are the formats of the parsed lines, most lines first.
	Formats []FormatCount `json:"formats"`
	// Nameless is how many of the unparseable lines are Envoy's and lack only the
	// client's address.
	Nameless int64 `json:"without_address"`

	// Unmatched is how many parsed lines no limit applied to. They are allowed.
	Unmatched int64 `json:"unmatched"`
	// BadCosts is how many of the denied lines name a cost that is none, such as -1,
	// and would have been answered 400.
	BadCosts int64 `json:"bad_costs"`
	// Over is how many of the allowed lines passed above the plain limit of a rule, in
	// a part that soft or elastic adds.
	Over int64 `json:"over"`
	// Refused is how many parsed lines the server had answered with 429.
	Refused int64 `json:"refused_in_log"`

	// DistinctClients is how many different keys were seen, DeniedClients how many of
	// them were denied anything.
	DistinctClients int64 `json:"distinct_clients"`
	DeniedClients   int64 `json:"denied_clients"`

	// Peak is the most lines in one second, before and after the limits. What is
	// delayed counts in the second in which it is let go.
	Peak Peak `json:"peak_per_second"`

	// Comparison says more about each entry of Algorithms.
	Comparison []Comparison `json:"comparison"`

	// Series is the course of time.
	Series Series `json:"series"`

	// ShadowRules are the rules that count but deny nobody.
	ShadowRules []string `json:"shadow_rules"`

	// Samples are the first unparseable lines.
	Samples []Sample `json:"unparseable_lines"`

	// Notes are what a reader should know before believing the numbers.
	Notes []string `json:"notes"`
}

// FormatCount is how many lines had a format.
type FormatCount struct {
	Format string `json:"format"` // common, json, cloudflare, envoy, haproxy or alb
	Name   string `json:"name"`   // for people
	Lines  int64  `json:"lines"`
}

// RuleCount is how one rule answered.
type RuleCount struct {
	Rule    string `json:"rule"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
}

// ClientCount is what became of one client's lines.
type ClientCount struct {
	Key     string `json:"key"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
}

// compareCounts orders by most denied, then most lines.
func (c *ClientCount) compareCounts(other *ClientCount) int {
	return cmp.Or(
		cmp.Compare(other.Denied, c.Denied),
		cmp.Compare(other.Allowed+other.Denied, c.Allowed+c.Denied),
	)
}

// compare is compareCounts, then the smallest key.
func (c *ClientCount) compare(other *ClientCount) int {
	return cmp.Or(c.compareCounts(other), cmp.Compare(c.Key, other.Key))
}

// AlgorithmCount is what became of all lines under one algorithm.
type AlgorithmCount struct {
	Algorithm string `json:"algorithm"`
	Allowed   int64  `json:"allowed"`
	Denied    int64  `json:"denied"`
}

// Comparison is one algorithm beside the others.
type Comparison struct {
	Algorithm string `json:"algorithm"`
	// Numbers are those of the limit, in words.
	Numbers       string `json:"numbers"`
	Allowed       int64  `json:"allowed"`
	Denied        int64  `json:"denied"`
	DeniedClients int64  `json:"denied_clients"`
	// Peak is the most lines in one second after the limit.
	Peak int64 `json:"peak_per_second"`
}

// Peak is the most lines in one second.
type Peak struct {
	Offered int64 `json:"offered"`
	Allowed int64 `json:"allowed"`
}

// Series is counts over time, in at most 1000 buckets of equal width. Bucket i
// begins at Start + i*Width seconds (Unix time).
type Series struct {
	Start   int64   `json:"start"`
	Width   int64   `json:"width_seconds"`
	Offered []int64 `json:"offered"`
	Denied  []int64 `json:"denied"`
	// PeakOffered and PeakAllowed are the most lines in one second of each bucket.
	PeakOffered []int64 `json:"peak_offered"`
	PeakAllowed []int64 `json:"peak_allowed"`
}

// Sample is a line that could not be parsed.
type Sample struct {
	Input string `json:"input"`
	Line  int64  `json:"line"` // counted from 1 in its input
	Text  string `json:"text"` // shortened, with all but printable characters escaped
}

// Shown is the text of the sample for people.
func (s Sample) Shown() string {
	if strings.TrimSpace(s.Text) == "" {
		return "(empty)"
	}
	return s.Text
}

// WriteJSON writes the report as one JSON object. Its order never changes.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// finish adds what is to be said about the numbers.
func (r *Report) finish(opts *Options) {
	if r.Parsed > 0 && r.Late*100 > r.Parsed {
		r.note("%s came later than the reorder window of %s allows and were decided at its edge: give the files oldest first, or raise --reorder.",
			count(r.Late, "line", "lines"), span(opts.Reorder))
	}
	if r.Lines > 0 && r.Unparseable*10 > r.Lines {
		r.note("%s of the lines could not be parsed. Known formats are %s.", percent(r.Unparseable, r.Lines), knownFormats())
	}
	if r.Nameless > 0 {
		r.note("%s no client: Envoy's default format has its address in X-Forwarded-For only, which Envoy sets where use_remote_address is on.",
			count(r.Nameless, "line names", "lines name"))
	}
	if r.Refused > 0 {
		r.note("%s had already been answered with 429: the log is of limited traffic, and what was held back does not show.",
			count(r.Refused, "request", "requests"))
	}
	for _, list := range []*[]string{&r.Notes, &r.ShadowRules} {
		if *list == nil {
			*list = []string{}
		}
	}
	if r.Formats == nil {
		r.Formats = []FormatCount{}
	}
	if r.Samples == nil {
		r.Samples = []Sample{}
	}
}

// How many characters of an unparseable line and of a key are shown.
const (
	maxSample = 120
	maxKey    = 300
)

// printable returns text from a log shortened and safe to print: nothing in it can
// move a cursor or break a line.
func printable(text string, most int) string {
	var b strings.Builder
	n := 0
	for i, r := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsGraphic(r) && (r == ' ' || !unicode.IsSpace(r)):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// count is a number with its noun.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// thousands writes a number with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent is a part of a whole. What is not nothing is never shown as 0 %, and what
// is not all never as 100 %.
func percent(part, whole int64) string {
	if whole == 0 || part == 0 {
		return "0 %"
	}
	p := 100 * float64(part) / float64(whole)
	switch {
	case part == whole:
		return "100 %"
	case p < 0.01:
		return "< 0.01 %"
	case p > 99.9:
		return "> 99.9 %"
	case p < 1:
		return fmt.Sprintf("%.2f %%", p)
	}
	return fmt.Sprintf("%.1f %%", p)
}
