package book

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"stint/rule/catalog"
)

const buffered = 64 << 10

// table reads CSV as in RFC 4180, with comments and with blanks around values.
type table struct {
	*collector
	columns []int // the field of each column
	least   int   // number of columns that each record must have
	first   bool  // no record was read yet
}

// readCSV reads a CSV file.
func readCSV(c *collector, r io.Reader) error {
	in, err := openText(c, r)
	if in == nil {
		return err
	}
	lines := &bounded{in: in, fresh: true}
	records := csv.NewReader(bufio.NewReaderSize(lines, buffered))
	records.Comment, records.FieldsPerRecord = '#', -1
	records.TrimLeadingSpace, records.ReuseRecord = true, true
	t := &table{collector: c, first: true}
	for {
		record, err := records.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
			t.first = false
			t.malformed(wrong)
			if t.enough() {
				return nil
			}
			continue
		}
		if errors.Is(err, errLong) {
			t.fail(lines.record, fmt.Sprintf("a rule of more than %d bytes", maxLine), "write one rule in each line; perhaps a double quote is not closed")
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := records.FieldPos(0)
		if err := t.record(line, record); err != nil || t.enough() {
			return err
		}
	}
}

// openText returns r without its byte order mark, or nil if r is not a text. An empty r is not a
// text either: a file is empty for a moment while it is overwritten, and its rules must not be
// removed then.
func openText(c *collector, r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, buffered)
	start, err := in.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case len(start) == 0:
		c.fail(0, "the file is empty", "write an empty line for a file without rules")
		return nil, nil
	case string(start) == "\ufeff":
		_, _ = in.Discard(len(start)) // Peek has buffered them
	case strings.HasPrefix(string(start), "\xff\xfe"), strings.HasPrefix(string(start), "\xfe\xff"):
		c.fail(1, "UTF-16 text", "save the file as UTF-8")
		return nil, nil
	case strings.HasPrefix(string(start), "\x1f\x8b"):
		c.fail(0, "a compressed file", "unpack it first, with gunzip")
		return nil, nil
	}
	return in, nil
}

// malformed adds a fault for a line that the CSV reader could not parse.
func (t *table) malformed(e *csv.ParseError) {
	switch {
	case errors.Is(e.Err, csv.ErrBareQuote):
		t.fail(e.Line, "a double quote inside a value that does not begin with one", `write the value in double quotes, and each of its own twice: "a ""b"""`)
	case errors.Is(e.Err, csv.ErrQuote):
		t.fail(e.StartLine, "a quoted value that does not end, or goes on after its closing quote", `close it before the comma, and write each of its own double quotes twice: "a ""b"""`)
	default:
		t.fail(e.Line, "not CSV: "+e.Err.Error(), "write values with commas between them")
	}
}

// record reads one record. After an error the caller must stop.
func (t *table) record(line int, record []string) error {
	if t.first {
		t.first = false
		if t.header(line, record) {
			return nil
		}
	}
	if len(t.columns) == 0 { // the header is invalid, so the columns are unknown
		return nil
	}
	if !t.count(line, record) {
		return nil
	}
	var r catalog.Rule
	good, asked := true, false
	for i, value := range record {
		value = strings.TrimSpace(value)
		if !utf8.ValidString(value) {
			t.fail(line, names[t.columns[i]]+": not UTF-8", "save the file as UTF-8")
			good = false
			continue
		}
		if problem, hint := set(&r, t.columns[i], value); problem != "" {
			t.fail(line, problem, hint)
			good = false
		}
		asked = asked || t.columns[i] == requests && value != ""
	}
	if problem, hint := needed(&r, asked); problem != "" && good {
		t.fail(line, problem, hint)
		good = false
	}
	if !good {
		return nil
	}
	return t.rule(line, r)
}

// count reports whether a record has the right number of values.
func (t *table) count(line int, record []string) bool {
	if len(record) >= t.least && len(record) <= len(t.columns) {
		return true
	}
	want := fmt.Sprint(t.least)
	if t.least < len(t.columns) {
		want = fmt.Sprintf("%d to %d", t.least, len(t.columns))
	}
	hint := "write " + columnList(t.columns) + "; a value that holds a comma needs double quotes"
	if len(record) == 1 && strings.ContainsAny(record[0], ";\t") {
		hint = "separate the values with commas, not with semicolons or tabs"
	}
	t.fail(line, fmt.Sprintf("%d values instead of %s", len(record), want), hint)
	return false
}

// columnList returns the names of columns as in a header line.
func columnList(columns []int) string {
	known := make([]string, len(columns))
	for i, field := range columns {
		known[i] = names[field]
	}
	return strings.Join(known, ",")
}

// header reports whether the first record is a header. It is one if at least two of its values are
// column names, which no rule has.
func (t *table) header(line int, record []string) bool {
	known := 0
	for _, name := range record {
		if fieldOf(strings.TrimSpace(name)) >= 0 {
			known++
		}
	}
	if known < 2 {
		t.least = requests + 1
		for field := range fields {
			t.columns = append(t.columns, field)
		}
		return false
	}
	var has [fields]bool
	var columns []int
	before := len(t.faults.List)
	for _, name := range record {
		field := fieldOf(strings.TrimSpace(name))
		switch {
		case field < 0:
			problem, hint := unknown("column", strings.TrimSpace(name))
			t.fail(line, problem, hint)
		case has[field]:
			t.fail(line, "the column "+names[field]+" is set twice", "keep one of the two")
		default:
			has[field] = true
			columns = append(columns, field)
		}
	}
	for _, field := range required {
		if !has[field] {
			t.fail(line, "no column "+names[field], "a header names at least "+requiredNames())
		}
	}
	if len(t.faults.List) == before {
		t.columns, t.least = columns, len(columns)
	}
	return true
}

// errLong is returned for a record longer than any rule.
var errLong = errors.New("a record is too long")

// bounded passes CSV through until a record has more than maxLine bytes. Package csv would keep the
// whole record, and 40 bytes for each comma.
type bounded struct {
	in      *bufio.Reader
	line    int  // number of complete lines
	record  int  // line in which the current record began
	size    int  // bytes of the current record
	fresh   bool // at the beginning of a line, outside quotes
	quoted  bool // inside double quotes, where line breaks belong to a value
	comment bool
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	for i, c := range p[:n] {
		if b.fresh {
			b.comment, b.size, b.record = c == '#', 0, b.line+1
		}
		b.fresh = false
		switch {
		case c == '"' && !b.comment:
			b.quoted = !b.quoted
		case c == '\n':
			b.line++
			b.fresh = !b.quoted
		}
		if b.size++; b.size > maxLine {
			return i, errLong
		}
	}
	return n, err
}
