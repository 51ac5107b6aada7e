package whatif

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"stint/internal/text"
)

// Plan is what a change of rules does to the requests of a log.
type Plan struct {
	Lines       int64 `json:"lines"`
	Parsed      int64 `json:"parsed"`
	Unparseable int64 `json:"unparseable"`
	Late        int64 `json:"late"`

	// DeniedBefore and DeniedAfter are requests.
	DeniedBefore int64 `json:"denied_before"`
	DeniedAfter  int64 `json:"denied_after"`

	// Clients is the number of addresses in the log. NewlyDenied are those that are denied after the
	// change only, Freed those that are denied before it only, by whatever rule.
	Clients     int64 `json:"clients"`
	NewlyDenied int64 `json:"newly_denied_clients"`
	Freed       int64 `json:"freed_clients"`

	// Rules are those that differ.
	Rules []Change `json:"rules"`

	// Notes are facts that help to judge the numbers.
	Notes []string `json:"notes"`

	// Interrupted means that the new rules were not replayed to the end, so nothing is compared.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Metrics returns the names that Measure knows.
func (p *Plan) Metrics() []string {
	return []string{"newly-denied", "freed", "denied", "late", "unparseable"}
}

// Measure returns a number of the plan for a threshold, and what a share of it refers to: all clients
// for newly-denied and freed, all parsed lines for denied (after the change) and late, all lines for
// unparseable.
func (p *Plan) Measure(metric string) (part, whole int64, noun [2]string, known bool) {
	clients, lines := [2]string{"client", "clients"}, [2]string{"line", "lines"}
	switch metric {
	case "newly-denied":
		return p.NewlyDenied, p.Clients, clients, true
	case "freed":
		return p.Freed, p.Clients, clients, true
	case "denied":
		return p.DeniedAfter, p.Parsed, lines, true
	case "late":
		return p.Late, p.Parsed, lines, true
	case "unparseable":
		return p.Unparseable, p.Lines, lines, true
	}
	return 0, 0, lines, false
}

// WriteJSON writes the plan as one JSON object.
func (p *Plan) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(p)
}

// Headline returns the plan in one sentence.
func (p *Plan) Headline() string {
	if p.Interrupted {
		return fmt.Sprintf("Interrupted before the new rules were replayed, so nothing is compared: %s of %s are denied now.",
			text.Thousands(p.DeniedBefore), text.Plural(p.Parsed, "request", "requests"))
	}
	if len(p.Rules) == 0 {
		return fmt.Sprintf("The change affects none of %s.", text.Plural(p.Parsed, "request", "requests"))
	}
	return fmt.Sprintf("The change newly denies %s and frees %s, of %s: %s of %s would be denied, %s are now.",
		text.Plural(p.NewlyDenied, "client", "clients"), text.Thousands(p.Freed), text.Thousands(p.Clients),
		text.Thousands(p.DeniedAfter), text.Plural(p.Parsed, "request", "requests"), text.Thousands(p.DeniedBefore))
}

// WriteText writes the plan for a terminal, in lines of at most width characters.
func (p *Plan) WriteText(out io.Writer, width int) error {
	w := bufio.NewWriter(out)
	for _, line := range text.Wrap(p.Headline(), width) {
		fmt.Fprintln(w, line)
	}
	t := text.Table{Head: []string{"Rule", "Keys", "Newly denied", "Freed", "Denied requests"}}
	for i := range p.Rules {
		c := &p.Rules[i]
		note := ""
		if c.Shadow {
			note = ", shadow"
		}
		t.Add(fmt.Sprintf("%s (%s%s)", c.Rule, c.What, note), c.Keys, c.NewlyDenied, c.Freed,
			text.Thousands(c.DeniedBefore)+" -> "+text.Thousands(c.DeniedAfter))
	}
	t.Write(w, width)
	for i := range p.Rules {
		p.Rules[i].writeText(w, width)
	}
	for i, note := range p.Notes {
		if i == 0 {
			fmt.Fprintln(w, "\nNotes")
		}
		text.Item(w, "- ", note, width)
	}
	return w.Flush()
}

// writeText writes the words and the examples of a change.
func (c *Change) writeText(w io.Writer, width int) {
	fmt.Fprintf(w, "\n%s\n", text.Clip(c.Domain+": "+c.Rule, width))
	for _, side := range []struct{ sign, words string }{{"- ", c.Before}, {"+ ", c.After}} {
		if side.words != "" && c.What != "same" {
			text.Item(w, "  "+side.sign, side.words, width)
		}
	}
	for _, e := range c.Examples {
		fmt.Fprintln(w, text.Clip(fmt.Sprintf("  newly denied: %s (%s)", text.Visible(e.Key, width), text.Plural(e.Denied, "request", "requests")), width))
	}
}
