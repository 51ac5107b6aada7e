package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"stint/internal/text"
)

// Report is what a run measured. Its fields are those of its JSON.
type Report struct {
	Target      string    `json:"target"` // set by the caller
	Mode        string    `json:"mode"`   // "open loop" or "closed loop"
	Rate        float64   `json:"rate,omitempty"`
	Workers     int       `json:"workers"`
	Keys        int       `json:"keys"`
	Spread      string    `json:"spread"`
	Cost        uint32    `json:"cost"`
	Began       time.Time `json:"began"`
	Took        float64   `json:"took_s"`
	Interrupted bool      `json:"interrupted"`

	Calls      int64            `json:"calls"` // allowed, denied and errors
	Allowed    int64            `json:"allowed"`
	Denied     int64            `json:"denied"`
	Degraded   int64            `json:"degraded"` // decided by a failure policy; these are also allowed or denied
	Errors     int64            `json:"errors"`
	ErrorKinds map[string]int64 `json:"error_kinds"`
	Late       int64            `json:"late"`   // calls of an open loop that started a millisecond or more after their time
	Unsent     int64            `json:"unsent"` // calls of an open loop for which no worker was free until the end
	PerSecond  float64          `json:"answers_per_second"`

	// Response are the times of an open loop from the planned start, and of a closed loop corrected for the calls that it omitted. A
	// call without an answer counts with its timeout, and an unsent one with the time that it would have waited at least.
	Response Times `json:"response"`

	// Service are the times from the sending to the answer.
	Service Times `json:"service"`

	// Interval is the time between two calls of a worker by which a closed loop was corrected: the median answer.
	Interval int64 `json:"interval_us,omitempty"`

	Limit *Finding `json:"limit,omitempty"`
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report as a few lines.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", r.Target, r.Title())
	fmt.Fprintf(&b, "answers    %s: %.0f per second for %.2f s\n", text.Thousands(r.Allowed+r.Denied), r.PerSecond, r.Took)
	fmt.Fprintf(&b, "allowed    %s, denied %s", text.Thousands(r.Allowed), text.Thousands(r.Denied))
	if r.Degraded > 0 {
		fmt.Fprintf(&b, "; a failure policy gave %s of these answers", text.Thousands(r.Degraded))
	}
	fmt.Fprintf(&b, "\nerrors     %s\n", text.Thousands(r.Errors))
	for _, kind := range r.kinds() {
		fmt.Fprintf(&b, "           %s: %s\n", text.Thousands(r.ErrorKinds[kind]), kind)
	}
	if r.Late+r.Unsent > 0 {
		fmt.Fprintf(&b, "late       %s started 1 ms or more after their time, %s could not be sent\n", text.Thousands(r.Late), text.Thousands(r.Unsent))
	}
	for _, row := range r.Rows() {
		t := row.Times
		fmt.Fprintf(&b, "%s p50 %s, p90 %s, p99 %s, p99.9 %s, longest %s\n", row.Name,
			Micro(t.P50), Micro(t.P90), Micro(t.P99), Micro(t.P999), Micro(t.Max))
	}
	for _, note := range r.Notes() {
		text.Item(&b, "           ", note, 100)
	}
	if r.Limit != nil {
		fmt.Fprintf(&b, "limit      %s: %s\n", r.Limit.Limit, r.Limit.Sentence())
		if r.Limit.Exceeded && r.Degraded > 0 {
			text.Item(&b, "           ", "The store was away or slow: what a failure policy allowed is in this number.", 100)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// kinds returns the errors, the most frequent first.
func (r *Report) kinds() []string {
	return slices.SortedFunc(maps.Keys(r.ErrorKinds), func(a, b string) int {
		if d := r.ErrorKinds[b] - r.ErrorKinds[a]; d != 0 {
			return int(d)
		}
		return strings.Compare(a, b)
	})
}

// Title says what was sent.
func (r *Report) Title() string {
	sent := "closed loop"
	if r.Rate > 0 {
		sent = fmt.Sprintf("open loop of %g per second", r.Rate)
	}
	title := fmt.Sprintf("%s, %s, %s", sent, text.Count(r.Workers, "worker"), text.Count(r.Keys, "key"))
	if r.Keys > 1 {
		title += " (" + r.Spread + ")"
	}
	if r.Cost != 1 {
		title += fmt.Sprintf(", cost %d", r.Cost)
	}
	if r.Interrupted {
		title += ", interrupted"
	}
	return title
}

// Row is a line of times with its name.
type Row struct {
	Name  string
	Times Times
}

// Rows returns the times that were measured.
func (r *Report) Rows() []Row {
	if r.Response.Count == 0 {
		return nil
	}
	if r.Rate > 0 {
		return []Row{{"from plan ", r.Response}, {"from send ", r.Service}}
	}
	return []Row{{"measured  ", r.Service}, {"corrected ", r.Response}}
}

// Notes say what the times mean.
func (r *Report) Notes() []string {
	switch {
	case r.Response.Count == 0:
		return nil
	case r.Rate > 0:
		return []string{"Times count from the planned start of a call, and below from its sending."}
	}
	return []string{fmt.Sprintf("Corrected for calls that were not sent while workers waited, one each %s (the median).", Micro(r.Interval))}
}

// Sentence says whether more passed than may.
func (f *Finding) Sentence() string {
	var more string
	if f.Unchecked > 0 {
		more = fmt.Sprintf("; %s later ones were not checked", text.Thousands(f.Unchecked))
	}
	if f.Worst == nil && f.Checked == 0 {
		return fmt.Sprintf("not tested, as no call was allowed (%s)", f.Bound)
	}
	if f.Worst == nil {
		return fmt.Sprintf("kept by %s allowed calls (%s)%s", text.Thousands(f.Checked), f.Bound, more)
	}
	w := f.Worst
	return fmt.Sprintf("EXCEEDED: %s units of key %d passed in %.6f s, and %.2f may (%s), from second %.6f on%s",
		text.Thousands(w.Passed), w.Key, w.Length, w.May, f.Bound, w.From, more)
}

// Micro formats microseconds with three digits, such as 1.25ms.
func Micro(us int64) string {
	d := time.Duration(us) * time.Microsecond
	for unit := time.Microsecond; unit < time.Hour; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.String()
}
