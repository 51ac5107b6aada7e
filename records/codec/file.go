package codec

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
		w.line = appendCell(append(w.line, ','), guard(cell))
	}
	_, _ = w.out.Write(append(w.line, '\n'))
}

// Write writes a record.
func (w *Writer) Write(r records.Record) error {
	w.count++
	f := Of(r)
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
	buffered := bufio.NewReaderSize(in, 64<<10)
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

func readLines(in *bufio.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var room []byte
		records := 0
		for n := 1; ; n++ {
			line, err := readLine(in, room)
			room = line[:0]
			switch {
			case errors.Is(err, io.EOF) && len(line) == 0:
				err = &LineError{n, "the file has no last line", cutHint}
			case errors.Is(err, io.EOF):
				err = &LineError{n, errCut.Error(), cutHint}
			case errors.Is(err, errLong):
				err = &LineError{n, fmt.Sprintf("longer than %d bytes", maxLine), "no record is so long"}
			case err == nil && len(bytes.TrimSpace(line)) == 0:
				continue
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			row, count, fault := readObject(line)
			row.Line = n
			switch {
			case fault != nil:
				err = FaultAt(n, fault)
			case row.Record == end:
				_, peeked := in.Peek(1)
				if err = closing(n, records, count, peeked == nil); err == nil {
					return
				}
			}
			records++
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
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
	return "", jsonbody.Bad(head, text.Quote(name)+" is no kind of record", "write subject, override, ban or key")
}

// readObject reads the object of a line. count is the number in the last line.
func readObject(line []byte) (row Row, count string, fault *jsonbody.Fault) {
	all := []string{head, "count"}
	for i := range columns {
		all = append(all, columns[i].name)
	}
	s := jsonbody.Scanner{Data: line}
	seen, fault := s.Object(all, func(field int) (fault *jsonbody.Fault) {
		switch field {
		case 0:
			row.Record, fault = s.Text()
			row.Record = strings.Clone(row.Record)
		case 1:
			count, fault = s.Number()
			count = strings.Clone(count)
		default:
			fault = row.ReadJSON(&s, all[field])
		}
		return fault
	})
	if fault == nil {
		fault = s.End()
	}
	switch {
	case fault != nil:
		fault.Seen = 0 // it would count from the beginning of the line
		return row, count, fault
	case row.Record == end && seen == 3:
		return row, count, nil
	}
	if row.Kind, fault = kindOf(row.Record); fault != nil {
		return row, count, fault
	}
	for i, name := range all[1:] {
		if seen&(2<<i) != 0 && !slices.Contains(names[row.Kind], name) {
			return row, count, notOf(name, row.Record)
		}
	}
	return row, count, nil
}

func notOf(field, kind string) *jsonbody.Fault {
	return jsonbody.Bad(field, "no field of "+kind, "leave it out; its fields are "+strings.Join(names[records.Kind(kind)], ", "))
}

func readCSV(r *rows) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		header, err := r.read()
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
			row, fault := readCells(header, cells)
			row.Line = r.line
			if fault != nil {
				yield(row, FaultAt(r.line, fault))
				return
			}
			if !yield(row, nil) {
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
	case errors.Is(err, errQuote), errors.Is(err, errLong):
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

// readCells reads the record of a row.
func readCells(header, cells []string) (row Row, fault *jsonbody.Fault) {
	if len(cells) != len(header) {
		return row, jsonbody.Bad("", fmt.Sprintf("%d cells, and the first line has %d", len(cells), len(header)), "write as many as there are columns")
	}
	row.Record = cells[0]
	if row.Kind, fault = kindOf(cells[0]); fault != nil {
		return row, fault
	}
	for i, name := range header[1:] {
		cell := unguard(cells[i+1])
		if cell != "" && !slices.Contains(names[row.Kind], name) {
			return row, notOf(name, row.Record)
		}
		if fault := row.set(name, cell); fault != nil {
			return row, fault
		}
	}
	return row, nil
}
