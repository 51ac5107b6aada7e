package replay

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// textWidth is the maximum width of a line in the text report.
const textWidth = 100

// Headline summarizes the result in one sentence.
func (r *Report) Headline() string {
	with := "With these rules"
	if r.Limit != "" {
		with = fmt.Sprintf("With %s (%s)", r.Limit, r.Algorithm)
	}
	if r.Parsed == 0 {
		return fmt.Sprintf("%s nothing was decided: none of %s could be parsed.", with, count(r.Lines, "line", "lines"))
	}
	if r.Denied == 0 {
		return fmt.Sprintf("%s, none of %s would have been denied.", with, count(r.Parsed, "request", "requests"))
	}
	return fmt.Sprintf("%s, %s of %s (%s) would have been denied, from %s of %s %s.", with,
		thousands(r.Denied), count(r.Parsed, "request", "requests"), percent(r.Denied, r.Parsed),
		thousands(r.DeniedClients), thousands(r.DistinctClients), r.ClientKind)
}

// WriteText writes the report for a terminal, with lines of at most 100 characters.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, line := range wrap(r.Headline(), textWidth) {
		fmt.Fprintln(b, line)
	}
	fmt.Fprintf(b, "\nLines   %s read: %s parsed, %s unparseable, %s late\n",
		thousands(r.Lines), thousands(r.Parsed), thousands(r.Unparseable), thousands(r.Late))
	if r.Parsed > 0 {
		for i, line := range wrap(r.FormatText(), textWidth-8) {
			fmt.Fprintf(b, "%-8s%s\n", [2]string{"Format", ""}[min(i, 1)], line)
		}
		fmt.Fprintf(b, "Time    %s\n", r.timeSpan())
		fmt.Fprintf(b, "Peak    %s per second offered, %s allowed\n", thousands(r.Peak.Offered), thousands(r.Peak.Allowed))
	}
	if r.Unmatched > 0 {
		fmt.Fprintf(b, "Free    %s matched no limit and passed\n", count(r.Unmatched, "request", "requests"))
	}
	r.textRules(b)
	r.textClients(b)
	r.textAlgorithms(b)
	r.textRest(b)
	return b.Flush()
}

func (r *Report) textRules(w io.Writer) {
	t := table{head: []string{"Rule", "Allowed", "Denied", ""}}
	for _, rule := range r.Rules {
		t.add(rule.Rule+r.shadowMark(rule.Rule), rule.Allowed, rule.Denied, percent(rule.Denied, rule.Allowed+rule.Denied))
	}
	t.write(w)
}

func (r *Report) shadowMark(rule string) string {
	if slices.Contains(r.ShadowRules, rule) {
		return " (shadow)"
	}
	return ""
}

func (r *Report) textClients(w io.Writer) {
	t := table{head: []string{r.clientsTitle(), "Allowed", "Denied", ""}}
	for _, c := range r.Clients {
		t.add(c.Key, c.Allowed, c.Denied, percent(c.Denied, c.Allowed+c.Denied))
	}
	t.write(w)
}

// clientsTitle returns the title of the client list.
func (r *Report) clientsTitle() string {
	kind := strings.ToUpper(r.ClientKind[:1]) + r.ClientKind[1:]
	if r.Denied == 0 {
		return kind + " with most requests"
	}
	return kind + " with most denied"
}

func (r *Report) textAlgorithms(w io.Writer) {
	t := table{head: []string{"Algorithm", "Allowed", "Denied", "", "Denied " + r.ClientKind, "Peak/s"}}
	for _, c := range r.Comparison {
		t.add(c.Algorithm+": "+c.Numbers, c.Allowed, c.Denied, percent(c.Denied, c.Allowed+c.Denied), c.DeniedClients, c.Peak)
	}
	t.write(w)
}

func (r *Report) textRest(w io.Writer) {
	if len(r.Samples) > 0 {
		fmt.Fprintf(w, "\n%s\n", r.samplesTitle())
		for _, s := range r.Samples {
			fmt.Fprintln(w, shorten(fmt.Sprintf("  %s:%d  %s", s.Input, s.Line, s.Shown()), textWidth))
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w, "\nNotes")
		for _, note := range r.Notes {
			for i, line := range wrap(note, textWidth-2) {
				fmt.Fprintln(w, [2]string{"- ", "  "}[min(i, 1)]+line)
			}
		}
	}
}

func (r *Report) samplesTitle() string {
	if r.Unparseable > int64(len(r.Samples)) {
		return fmt.Sprintf("First %d of %s unparseable lines", len(r.Samples), thousands(r.Unparseable))
	}
	return "Unparseable lines"
}

// timeSpan returns the first and last time of the log.
func (r *Report) timeSpan() string {
	const layout = "2006-01-02 15:04:05"
	return fmt.Sprintf("%s to %s UTC (%s)", r.First.Format(layout), r.Last.Format(layout), roughly(r.Last.Sub(r.First)))
}

// roughly formats a duration in its two largest units.
func roughly(d time.Duration) string {
	day := 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// table has aligned columns: the first is aligned left, the others right.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(first string, cells ...any) {
	row := []string{first}
	for _, c := range cells {
		if n, ok := c.(int64); ok {
			c = thousands(n)
		}
		row = append(row, fmt.Sprint(c))
	}
	t.rows = append(t.rows, row)
}

// write writes an empty line and the table, or nothing if it has no rows.
func (t *table) write(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	others := 0
	for _, width := range widths[1:] {
		others += 2 + width
	}
	widths[0] = min(widths[0], textWidth-others)
	fmt.Fprintln(w)
	for _, row := range append([][]string{t.head}, t.rows...) {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*s", widths[0], shorten(row[0], widths[0]))
		for i, cell := range row[1:] {
			fmt.Fprintf(&line, "  %*s", widths[i+1], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// shorten cuts a text to a width and marks the cut.
func shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width-1)]) + "…"
}

// wrap breaks a text at spaces into lines of at most width characters. It cuts longer words.
func wrap(s string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(s) {
		word = shorten(word, width)
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
