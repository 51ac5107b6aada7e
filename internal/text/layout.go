package text

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Table has aligned columns: the first is aligned left, the others right.
type Table struct {
	Head []string
	rows [][]string
}

// Add appends a row. Numbers of type int64 get commas.
func (t *Table) Add(first string, cells ...any) {
	row := []string{first}
	for _, c := range cells {
		if n, ok := c.(int64); ok {
			c = Thousands(n)
		}
		row = append(row, fmt.Sprint(c))
	}
	t.rows = append(t.rows, row)
}

// Write writes an empty line and the table, with lines of at most width characters: it shortens the
// cells of the first column. It writes nothing if the table has no rows.
func (t *Table) Write(w io.Writer, width int) {
	if len(t.rows) == 0 {
		return
	}
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	others := 0
	for _, n := range widths[1:] {
		others += 2 + n
	}
	widths[0] = min(widths[0], width-others)
	fmt.Fprintln(w)
	for _, row := range append([][]string{t.Head}, t.rows...) {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*s", widths[0], Clip(row[0], widths[0]))
		for i, cell := range row[1:] {
			fmt.Fprintf(&line, "  %*s", widths[i+1], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// Clip cuts a text to a width and marks the cut.
func Clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width-1)]) + "…"
}

// Wrap breaks a text at spaces into lines of at most width characters. It cuts longer words.
func Wrap(s string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(s) {
		word = Clip(word, width)
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

// Item writes a text behind a mark such as "- ", in lines of at most width characters, the further ones
// indented as far.
func Item(w io.Writer, mark, s string, width int) {
	for _, line := range Wrap(s, width-len(mark)) {
		fmt.Fprintln(w, mark+line)
		mark = strings.Repeat(" ", len(mark))
	}
}

// Visible shortens text from a log and escapes everything that could move a cursor or break a
// line.
func Visible(s string, most int) string {
	var b strings.Builder
	n := 0
	for i, r := range s {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
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
