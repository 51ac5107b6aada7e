package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/records"
)

// Format is the format of a file of records.
type Format uint8

// The formats.
const (
	JSONLines Format = iota
	CSV
)

const (
	// maxLine is the most bytes of a line, which is more than the longest record takes.
	maxLine = 256 << 10

	end  = "end" // the kind of the last line
	head = "record"
)

// Writer writes a file of records. Its first error stays.
type Writer struct {
	out    *bufio.Writer
	format Format
	names  []string // columns of CSV
	line   []byte
	count  int
}

// NewWriter returns a Writer of a file of records of these kinds.
func NewWriter(out io.Writer, format Format, kinds ...records.Kind) *Writer {
	w := &Writer{out: bufio.NewWriter(out), format: format}
	if format != CSV {
		return w
	}
	for i := range columns {
		name := columns[i].name
		if slices.ContainsFunc(kinds, func(k records.Kind) bool { return slices.Contains(names[k], name) }) {
			w.names = append(w.names, name)
		}
	}
	w.row(head, w.names)
	return w
}

// row writes a row of CSV. bufio.Writer keeps an error until Close.
func (w *Writer) row(first string, cells []string) {
	w.line = append(w.line[:0], first...)
	for _, cell := range cells {
		w.line = appendCell(append(w.line, ','), text.GuardFormulas(cell))
	}
	_, _ = w.out.Write(append(w.line, '\n'))
}

// Write writes a record.
func (w *Writer) Write(r records.Record) error {
	w.count++
	f := FieldsOf(r)
	f.Record = string(r.ID().Kind)
	if w.format == JSONLines {
		_, err := w.out.Write(f.JSON())
		return err
	}
	cells := make([]string, len(w.names))
	for i, name := range w.names {
		cells[i] = f.cell(name)
	}
	w.row(f.Record, cells)
	return nil
}

// Close writes the last line, without which the file counts as cut.
func (w *Writer) Close() error {
	if w.format == CSV {
		cells := make([]string, len(w.names))
		cells[0] = strconv.Itoa(w.count)
		w.row(end, cells)
	} else {
		fmt.Fprintf(w.out, "{\"record\":\"end\",\"count\":%d}\n", w.count)
	}
	return w.out.Flush()
}

// Row is a record of a file.
type Row struct {
	Line int // from 1
	Kind records.Kind
	Fields
}

// LineError is the error about a line of a file.
type LineError struct {
	Line          int // from 1
	Problem, Hint string
}

// Error returns the line and the problem, without the hint.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// FaultAt returns the error for a fault in a line.
func FaultAt(line int, f *jsonbody.Fault) *LineError { return &LineError{line, f.Where(), f.Hint} }

// Read returns the records of a file. The last element may be an error: a [*LineError], or that of
// in.
func Read(in io.Reader, format Format) iter.Seq2[Row, error] {
	buffered := bufio.NewReaderSize(in, 16<<10)
	if mark, _ := buffered.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = buffered.Discard(len(mark)) // as Excel writes; the bytes are in the buffer
	}
	if format == CSV {
		return readCSV(&rows{in: buffered, next: 1})
	}
	return readLines(buffered)
}

const cutHint = "send the whole file: its last line is {\"record\":\"end\",\"count\":N}, or end,N in CSV, with the number of records before it"

// closing checks the last line, and that nothing follows it.
func closing(line, count int, written string, more bool) error {
	n, err := strconv.Atoi(written)
	switch {
	case err != nil || n < 0:
		return &LineError{line, "the last line has no number of records", cutHint}
	case n != count:
		return &LineError{line, fmt.Sprintf("the file has %d records, and its last line says %d: a part is missing, or there twice", count, n), cutHint}
	case more:
		return &LineError{line + 1, "something follows the last line", "put it before the line with the number of records"}
	}
	return nil
}

// objects reads JSON Lines.
type objects struct {
	in    *bufio.Reader
	line  []byte
	row   Row
	count string // the number in the last line
	scan  jsonbody.Scanner
}

// objectNames are the fields of an object; those of columns begin at the third.
var objectNames = func() []string {
	all := []string{head, "count"}
	for i := range columns {
		all = append(all, columns[i].name)
	}
	return all
}()

func readLines(in *bufio.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		o := &objects{in: in}
		field := o.field
		for n, count := 1, 0; ; n++ {
			err := o.next(n)
			if err == nil && len(bytes.TrimSpace(o.line)) == 0 {
				continue
			}
			if err == nil {
				if fault := o.object(field); fault != nil {
					err = FaultAt(n, fault)
				}
			}
			if err == nil && o.row.Record == end {
				_, peeked := in.Peek(1)
				if err = closing(n, count, o.count, peeked == nil); err == nil {
					return
				}
			}
			o.row.Line = n
			count++
			if !yield(o.row, err) || err != nil {
				return
			}
		}
	}
}

// next reads line n.
func (o *objects) next(n int) (err error) {
	o.line, err = readLine(o.in, o.line[:0])
	switch {
	case errors.Is(err, io.EOF) && len(o.line) == 0:
		return &LineError{n, "the file has no last line", cutHint}
	case errors.Is(err, io.EOF):
		return &LineError{n, errCut.Error(), cutHint}
	case errors.Is(err, errLong):
		return &LineError{n, fmt.Sprintf("longer than %d bytes", maxLine), "no record is so long"}
	}
	return err
}

// readLine reads a line without its end into room.
func readLine(in *bufio.Reader, room []byte) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		room = append(room, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(room) <= maxLine:
			continue
		case len(room) > maxLine:
			return room, errLong
		case err == nil:
			return room[:len(room)-1], nil
		}
		return room, err
	}
}

// kindOf returns the kind of a record of that name.
func kindOf(name string) (records.Kind, *jsonbody.Fault) {
	if kind := records.Kind(name); slices.Contains(Kinds, kind) {
		return kind, nil
	}
	return "", jsonbody.Bad(head, text.Quote(name)+" is no kind of record", "write "+KindNames)
}

// object reads the object of a line. field is the method of that name.
func (o *objects) object(field func(int) *jsonbody.Fault) (fault *jsonbody.Fault) {
	o.row, o.count, o.scan = Row{}, "", jsonbody.Scanner{Data: o.line}
	seen, fault := o.scan.Object(objectNames, field)
	if fault == nil {
		fault = o.scan.End()
	}
	switch {
	case fault != nil:
		fault.Seen = 0 // it would count from the beginning of the line
		return fault
	case o.row.Record == end && seen == 3:
		return nil
	}
	if o.row.Kind, fault = kindOf(o.row.Record); fault != nil {
		return fault
	}
	for i, name := range objectNames[1:] {
		if seen&(2<<i) != 0 && !slices.Contains(names[o.row.Kind], name) {
			return notOf(name, o.row.Record)
		}
	}
	return nil
}

// field reads the value of one field.
func (o *objects) field(i int) (fault *jsonbody.Fault) {
	switch i {
	case 0:
		o.row.Record, fault = o.scan.Text()
		o.row.Record = strings.Clone(o.row.Record)
	case 1:
		o.count, fault = o.scan.Number()
		o.count = strings.Clone(o.count)
	default:
		fault = o.row.ReadJSON(&o.scan, objectNames[i])
	}
	return fault
}

func notOf(field, kind string) *jsonbody.Fault {
	return jsonbody.Bad(field, "no field of "+kind, "leave it out; its fields are "+strings.Join(names[records.Kind(kind)], ", "))
}

func readCSV(r *rows) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		header, err := r.read()
		header = slices.Clone(header)
		if err == nil {
			err = checkHeader(header)
		}
		for count := 0; ; count++ {
			var cells []string
			if err == nil {
				cells, err = r.read()
			}
			if err != nil {
				yield(Row{}, r.fault(err))
				return
			}
			if cells[0] == end {
				written := ""
				if len(cells) > 1 {
					written = cells[1]
				}
				_, peeked := r.in.Peek(1)
				if err := closing(r.line, count, written, peeked == nil); err != nil {
					yield(Row{}, err)
				}
				return
			}
			fault := r.record(header, cells)
			r.row.Line = r.line
			if fault != nil {
				yield(r.row, FaultAt(r.line, fault))
				return
			}
			if !yield(r.row, nil) {
				return
			}
		}
	}
}

// fault returns the error for an error of read.
func (r *rows) fault(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return &LineError{r.line, "the file has no last line", cutHint}
	case errors.Is(err, errCut):
		return &LineError{r.line, errCut.Error(), cutHint}
	case errors.Is(err, errQuote), errors.Is(err, errLong), errors.Is(err, errCells):
		return &LineError{r.line, err.Error(), "put a cell with quotes, commas or line ends in double quotes, and write its own quotes twice"}
	}
	return err
}

// checkHeader checks the names of the columns.
func checkHeader(header []string) error {
	for i, name := range header {
		switch {
		case i == 0 && name != head:
			return &LineError{1, "the first column is not record", "begin with a line of column names, such as record,network,until,why"}
		case i > 0 && new(Fields).of(name) == nil:
			return &LineError{1, "unknown column " + text.Quote(name), "leave it out"}
		case slices.Contains(header[:i], name):
			return &LineError{1, "the column " + name + " is there twice", "leave out one of them"}
		}
	}
	if len(header) < 2 {
		return &LineError{1, "only one column", "begin with a line of column names, such as record,network,until,why"}
	}
	return nil
}

// record reads the record of a row.
func (r *rows) record(header, cells []string) (fault *jsonbody.Fault) {
	r.row = Row{}
	row := &r.row
	if len(cells) != len(header) {
		return jsonbody.Bad("", fmt.Sprintf("%d cells, and the first line has %d", len(cells), len(header)), "write as many as there are columns")
	}
	row.Record = cells[0]
	if row.Kind, fault = kindOf(cells[0]); fault != nil {
		return fault
	}
	for i, name := range header[1:] {
		cell := text.UnguardFormulas(cells[i+1])
		if cell != "" && !slices.Contains(names[row.Kind], name) {
			return notOf(name, row.Record)
		}
		if fault := row.set(name, cell); fault != nil {
			return fault
		}
	}
	return nil
}
