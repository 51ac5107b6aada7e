package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"stint/facts/advice"
	"stint/internal/text"
	"stint/replay/whatif"
)

// Report is the result of a replay. The JSON form begins with the fields of the stable interface,
// up to algorithms; more fields may be added after them.
type Report struct {
	// Lines is the number of lines in the inputs; each is either parsed or unparseable.
	Lines       int64 `json:"lines"`
	Parsed      int64 `json:"parsed"`
	Unparseable int64 `json:"unparseable"`

	// Late is the number of parsed lines that came too late for the reorder window.
	Late int64 `json:"late"`

	// Allowed and Denied are the numbers of parsed lines that the limits allow and deny. A line
	// that a leaky_bucket delays is allowed.
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`

	// Rules are all rules in the order of their files, or the one limit, named by its text. Each
	// has its own decisions: if several rules apply to a line, one may allow what another denies. A
	// line with cost 0 for a rule does not count there.
	Rules []RuleCount `json:"rules"`

	// Clients are the 20 clients with the most denied lines, then the most lines, then the smallest
	// key. With a limit, the key is the value that it counts by, several joined by "+", with IPv6
	// addresses cut to their /64. With rules, or with a limit that counts all lines together, it is
	// the client's address.
	Clients []ClientCount `json:"clients"`

	// Algorithms are the results for the same requests and periods under each algorithm, see
	// Comparison.
	Algorithms []AlgorithmCount `json:"algorithms"`

	// Limit is the text of the limit, "" for rules.
	Limit string `json:"limit"`
	// Algorithm is the algorithm of the limit, "" for rules.
	Algorithm string `json:"algorithm"`
	// ClientKind is the plural noun for Clients, such as "clients" or "paths".
	ClientKind string `json:"client_kind"`

	// First and Last are the times of the first and last line; zero if there are no lines.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`

	// Formats are the formats of the parsed lines, most lines first.
	Formats []FormatCount `json:"formats"`
	// Nameless is the number of unparseable lines that are in Envoy's format and lack only the
	// client's address.
	Nameless int64 `json:"without_address"`

	// Unmatched is the number of parsed lines to which no limit applied. They are allowed.
	Unmatched int64 `json:"unmatched"`
	// BadCosts is the number of denied lines with an invalid cost, such as -1. The service would
	// have answered 400.
	BadCosts int64 `json:"bad_costs"`
	// Over is the number of allowed lines that passed above the plain limit of a rule, in the part
	// that soft or elastic adds.
	Over int64 `json:"over"`
	// Refused is the number of parsed lines that the server had answered with 429.
	Refused int64 `json:"refused_in_log"`

	// DistinctClients is the number of different keys, and DeniedClients the number of keys with at
	// least one denied line.
	DistinctClients int64 `json:"distinct_clients"`
	DeniedClients   int64 `json:"denied_clients"`

	// Peak is the most lines in one second, before and after the limits. A delayed line counts in
	// the second in which it passes.
	Peak Peak `json:"peak_per_second"`

	// Comparison has more details about each entry of Algorithms.
	Comparison []Comparison `json:"comparison"`

	// Series are the counts over time.
	Series Series `json:"series"`

	// ShadowRules are the rules that count but deny nobody.
	ShadowRules []string `json:"shadow_rules"`

	// Sweep has a curve for each limit that a line asked, if Options.Sweep is set.
	Sweep []*whatif.Curve `json:"sweep,omitempty"`

	// Advice is what to change about the rules, or about the limit, if Options.Advise is set.
	Advice []advice.Advice `json:"advice,omitzero"`

	// Candidates compare limits with the candidates that their rules try, which deny nobody.
	Candidates []CandidateCount `json:"candidates"`

	// Samples are the first unparseable lines.
	Samples []Sample `json:"unparseable_lines"`

	// Notes are facts that help to judge the numbers.
	Notes []string `json:"notes"`

	// Interrupted means that the inputs have more lines, which were not read.
	Interrupted bool `json:"interrupted,omitempty"`
}

// FormatCount is the number of lines in a format.
type FormatCount struct {
	Format string `json:"format"` // common, json, cloudflare, envoy, haproxy or alb
	Name   string `json:"name"`   // name for output
	Lines  int64  `json:"lines"`
}

// RuleCount are the decisions of one rule.
type RuleCount struct {
	Rule    string `json:"rule"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
}

// ClientCount are the decisions about the lines of one client.
type ClientCount struct {
	Key     string `json:"key"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
}

// compareCounts orders by denied lines, then by all lines, both descending.
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

// AlgorithmCount are the decisions about all lines under one algorithm.
type AlgorithmCount struct {
	Algorithm string `json:"algorithm"`
	Allowed   int64  `json:"allowed"`
	Denied    int64  `json:"denied"`
}

// Comparison has the details of one algorithm.
type Comparison struct {
	Algorithm string `json:"algorithm"`
	// Numbers are the numbers of the limit, as text.
	Numbers       string `json:"numbers"`
	Allowed       int64  `json:"allowed"`
	Denied        int64  `json:"denied"`
	DeniedClients int64  `json:"denied_clients"`
	// Peak is the most lines that passed in one second.
	Peak int64 `json:"peak_per_second"`
}

// Peak is the most lines in one second.
type Peak struct {
	Offered int64 `json:"offered"`
	Allowed int64 `json:"allowed"`
}

// Series are counts over time, in at most 1000 buckets of equal width. Bucket i begins at Start +
// i*Width seconds (Unix time).
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
	Line  int64  `json:"line"` // line number in its input, from 1
	Text  string `json:"text"` // shortened, with non-printable characters escaped
}

// Shown returns the text of the sample for output.
func (s Sample) Shown() string {
	if strings.TrimSpace(s.Text) == "" {
		return "(empty)"
	}
	return s.Text
}

// WriteJSON writes the report as one JSON object. The order of the members never changes.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (r *Report) addCurve(c *whatif.Curve) {
	if c != nil {
		r.Sweep = append(r.Sweep, c)
	}
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// interrupt marks the report as that of a part of the inputs. A total of 0 bytes is unknown.
func (r *Report) interrupt(read, total int64) {
	r.Interrupted = true
	part := ""
	if total > 0 {
		part = " (" + text.Percent(read, total) + " of the input)"
	}
	r.note("Interrupted: the numbers are of the first %s%s.", text.Plural(r.Lines, "line", "lines"), part)
}

// finish adds the notes about the numbers.
func (r *Report) finish(opts *Options) {
	if r.Parsed > 0 && r.Late*100 > r.Parsed {
		r.note("%s came later than the reorder window of %s allows and were decided at its edge: give the files oldest first, or raise --reorder.",
			text.Plural(r.Late, "line", "lines"), span(opts.Reorder))
	}
	if r.Lines > 0 && r.Unparseable*10 > r.Lines {
		r.note("%s of the lines could not be parsed. Known formats are %s.", text.Percent(r.Unparseable, r.Lines), knownFormats())
	}
	if r.Nameless > 0 {
		r.note("%s no client: Envoy's default format has its address in X-Forwarded-For only, which Envoy sets where use_remote_address is on.",
			text.Plural(r.Nameless, "line names", "lines name"))
	}
	if r.Refused > 0 {
		r.note("%s had already been answered with 429: the log is of limited traffic and lacks the requests that were not sent.",
			text.Plural(r.Refused, "request", "requests"))
	}
	for _, list := range []*[]string{&r.Notes, &r.ShadowRules} {
		if *list == nil {
			*list = []string{}
		}
	}
	if r.Candidates == nil {
		r.Candidates = []CandidateCount{}
	}
	if r.Formats == nil {
		r.Formats = []FormatCount{}
	}
	if r.Samples == nil {
		r.Samples = []Sample{}
	}
}

// The maximum number of characters shown of an unparseable line and of a key.
const (
	maxSample = 120
	maxKey    = 300
)
