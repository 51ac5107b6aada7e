package text

import (
	"bytes"
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

// leastFirst is how much of the first column must have room beside the others.
const leastFirst = 6

// Write writes an empty line and the table, with lines of at most width characters: it shortens the
// cells of the first column, and leaves out columns from the right if that is not enough. It writes
// nothing if the table has no rows.
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
	others, shown := 0, 1
	for _, n := range widths[1:] {
		if others+2+n > width-leastFirst && shown > 1 {
			break
		}
		others += 2 + n
		shown++
	}
	widths[0] = min(widths[0], width-others)
	fmt.Fprintln(w)
	for _, row := range append([][]string{t.Head}, t.rows...) {
		var line strings.Builder
		fmt.Fprintf(&line, "%-*s", widths[0], Clip(row[0], widths[0]))
		for i, cell := range row[1:min(len(row), shown)] {
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

// Folder writes lines of at most Width characters to W: it breaks longer ones at spaces, and indents what
// follows. It keeps words that are longer, and lines that are indented by 4 to 10 spaces, which are for
// copying. The last line must have its end.
type Folder struct {
	W     io.Writer
	Width int

	line []byte // the begin of a line
}

// Write writes the lines that have ended.
func (f *Folder) Write(b []byte) (int, error) {
	f.line = append(f.line, b...)
	end := bytes.LastIndexByte(f.line, '\n') + 1
	for line := range strings.Lines(string(f.line[:end])) {
		if _, err := io.WriteString(f.W, Fold(line, f.Width, 2)); err != nil {
			return 0, err
		}
	}
	f.line = append(f.line[:0], f.line[end:]...)
	return len(b), nil
}

// Fold breaks a line as [Folder] does, and indents what follows by some spaces more than the line.
func Fold(line string, width, indent int) string {
	if utf8.RuneCountInString(line) <= width+1 {
		return line
	}
	if line = strings.TrimRight(line, " \n"); utf8.RuneCountInString(line) <= width {
		return line + "\n"
	}
	begin := line[:len(line)-len(strings.TrimLeft(line, " "))]
	if n := len(begin); n >= 4 && n <= 10 {
		return line + "\n"
	}
	var b strings.Builder
	b.WriteString(begin)
	used := len(begin)
	rest := strings.TrimSpace(line)
	for i := 0; rest != ""; i++ {
		word, after, _ := strings.Cut(rest, " ")
		spaces := len(after) - len(strings.TrimLeft(after, " ")) + 1 // after the word
		if i > 0 && used+utf8.RuneCountInString(word) > width {
			trimmed := strings.TrimRight(b.String(), " ")
			b.Reset()
			b.WriteString(trimmed + "\n" + begin + strings.Repeat(" ", indent))
			used = len(begin) + indent
		}
		b.WriteString(word + strings.Repeat(" ", spaces))
		used += utf8.RuneCountInString(word) + spaces
		rest = strings.TrimLeft(after, " ")
	}
	return strings.TrimRight(b.String(), " ") + "\n"
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
