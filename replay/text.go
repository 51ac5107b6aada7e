package replay

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"stint/facts/advice"
	"stint/internal/text"
)

// textWidth is the maximum width of a line in the text report where no other is given.
const textWidth = 100

// Headline summarizes the result in one sentence.
func (r *Report) Headline() string {
	with := "With these rules"
	if r.Limit != "" {
		with = fmt.Sprintf("With %s (%s)", r.Limit, r.Algorithm)
	}
	if r.Parsed == 0 {
		return fmt.Sprintf("%s nothing was decided: none of %s could be parsed.", with, text.Plural(r.Lines, "line", "lines"))
	}
	if r.Denied == 0 {
		return fmt.Sprintf("%s, none of %s would have been denied.", with, text.Plural(r.Parsed, "request", "requests"))
	}
	return fmt.Sprintf("%s, %s of %s (%s) would have been denied, from %s of %s %s.", with,
		text.Thousands(r.Denied), text.Plural(r.Parsed, "request", "requests"), text.Percent(r.Denied, r.Parsed),
		text.Thousands(r.DeniedClients), text.Thousands(r.DistinctClients), r.ClientKind)
}

// WriteText writes the report for a terminal, with lines of at most 100 characters.
func (r *Report) WriteText(w io.Writer) error { return r.WriteTextWidth(w, textWidth) }

// WriteTextWidth writes the report for a terminal, with lines of at most width characters, at least 40. Of
// tables it leaves out columns that do not fit.
func (r *Report) WriteTextWidth(w io.Writer, width int) error {
	b := bufio.NewWriter(w)
	for _, line := range text.Wrap(r.Headline(), width) {
		fmt.Fprintln(b, line)
	}
	fmt.Fprintln(b)
	r.textFacts(b, width)
	r.textRules(b, width)
	r.textCandidates(b, width)
	r.textClients(b, width)
	r.textAlgorithms(b, width)
	for _, c := range r.Sweep {
		c.WriteText(b, width, r.keyNoun())
	}
	if r.Advice != nil {
		fmt.Fprintln(b)
		advice.Write(b, r.Advice, width)
	}
	r.textRest(b, width)
	return b.Flush()
}

// textFacts writes what the log is.
func (r *Report) textFacts(w io.Writer, width int) {
	fact := func(name, format string, args ...any) {
		for _, line := range text.Wrap(fmt.Sprintf(format, args...), width-8) {
			fmt.Fprintf(w, "%-8s%s\n", name, line)
			name = ""
		}
	}
	fact("Lines", "%s read: %s parsed, %s unparseable, %s late",
		text.Thousands(r.Lines), text.Thousands(r.Parsed), text.Thousands(r.Unparseable), text.Thousands(r.Late))
	if r.Parsed > 0 {
		fact("Format", "%s", r.FormatText())
		fact("Time", "%s", r.timeSpan())
		fact("Peak", "%s per second offered, %s allowed", text.Thousands(r.Peak.Offered), text.Thousands(r.Peak.Allowed))
	}
	if r.Unmatched > 0 {
		fact("Free", "%s matched no limit and passed", text.Plural(r.Unmatched, "request", "requests"))
	}
}

func (r *Report) textRules(w io.Writer, width int) {
	t := text.Table{Head: []string{"Rule", "Allowed", "Denied", ""}}
	for _, rule := range r.Rules {
		t.Add(rule.Rule+r.shadowMark(rule.Rule), rule.Allowed, rule.Denied, text.Percent(rule.Denied, rule.Allowed+rule.Denied))
	}
	t.Write(w, width)
}

func (r *Report) shadowMark(rule string) string {
	if slices.Contains(r.ShadowRules, rule) {
		return " (shadow)"
	}
	return ""
}

func (r *Report) textClients(w io.Writer, width int) {
	t := text.Table{Head: []string{r.clientsTitle(), "Allowed", "Denied", ""}}
	for _, c := range r.Clients {
		t.Add(c.Key, c.Allowed, c.Denied, text.Percent(c.Denied, c.Allowed+c.Denied))
	}
	t.Write(w, width)
}

// clientsTitle returns the title of the client list.
func (r *Report) clientsTitle() string {
	kind := strings.ToUpper(r.ClientKind[:1]) + r.ClientKind[1:]
	if r.Denied == 0 {
		return kind + " with most requests"
	}
	return kind + " with most denied"
}

// keyNoun returns the plural of what the limits of the report count.
func (r *Report) keyNoun() string {
	if r.Limit == "" {
		return "keys"
	}
	return r.ClientKind
}

func (r *Report) textAlgorithms(w io.Writer, width int) {
	t := text.Table{Head: []string{"Algorithm", "Allowed", "Denied", "", "Denied " + r.ClientKind, "Peak/s"}}
	for _, c := range r.Comparison {
		t.Add(c.Algorithm+": "+c.Numbers, c.Allowed, c.Denied, text.Percent(c.Denied, c.Allowed+c.Denied), c.DeniedClients, c.Peak)
	}
	t.Write(w, width)
}

func (r *Report) textRest(w io.Writer, width int) {
	if len(r.Samples) > 0 {
		fmt.Fprintf(w, "\n%s\n", r.samplesTitle())
		for _, s := range r.Samples {
			fmt.Fprintln(w, text.Clip(fmt.Sprintf("  %s:%d  %s", s.Input, s.Line, s.Shown()), width))
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w, "\nNotes")
		for _, note := range r.Notes {
			text.Item(w, "- ", note, width)
		}
	}
}

func (r *Report) samplesTitle() string {
	if r.Unparseable > int64(len(r.Samples)) {
		return fmt.Sprintf("First %d of %s unparseable lines", len(r.Samples), text.Thousands(r.Unparseable))
	}
	return "Unparseable lines"
}

// timeSpan returns the first and last time of the log.
func (r *Report) timeSpan() string {
	const layout = "2006-01-02 15:04:05"
	return fmt.Sprintf("%s to %s UTC (%s)", r.First.Format(layout), r.Last.Format(layout), text.RoughDuration(r.Last.Sub(r.First)))
}
