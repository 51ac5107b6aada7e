package transfer

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// Errors of a row of CSV.
var (
	errCut   = errors.New("the file ends within a line")
	errQuote = errors.New("a double quote inside a cell")
	errLong  = errors.New("a line that is too long")
	errCells = errors.New("more cells than there are columns")
)

// rows reads CSV as in RFC 4180. Unlike package encoding/csv it keeps every byte of a quoted cell,
// a carriage return too.
type rows struct {
	in   *bufio.Reader
	line int // of the row read last, from 1
	next int // of the next row

	cells []string // the room of read
	cell  []byte
	row   Row // of record
}

// read returns the cells of the next row; io.EOF after the last one. They are valid until the next
// call.
func (r *rows) read() ([]string, error) {
	r.line, r.cells, r.cell = r.next, r.cells[:0], r.cell[:0]
	quoted, closed := false, false // inside quotes; after the closing one
	for size := 0; ; size++ {
		c, err := r.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && size == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, errCut
		case err != nil:
			return nil, err
		case size > maxLine:
			return nil, errLong
		case c == '\n':
			r.next++
		}
		switch {
		case quoted && c == '"':
			quoted, closed = false, true
		case quoted:
			r.cell = append(r.cell, c)
		case c == '"' && closed: // two stand for one
			r.cell = append(r.cell, c)
			quoted, closed = true, false
		case c == '"' && len(r.cell) == 0:
			quoted = true
		case c == '"':
			return nil, errQuote
		case c == ',', c == '\n':
			if len(r.cells) > len(columns) {
				return nil, errCells
			}
			r.cells, r.cell, closed = append(r.cells, string(r.cell)), r.cell[:0], false
			if c == '\n' {
				return r.cells, nil
			}
		case c == '\r' && r.before('\n'):
		case closed:
			return nil, errQuote
		default:
			r.cell = append(r.cell, c)
		}
	}
}

// before reports whether c is the next byte.
func (r *rows) before(c byte) bool {
	next, err := r.in.Peek(1)
	return err == nil && next[0] == c
}

// appendCell appends a cell, in quotes where it needs them.
func appendCell(line []byte, cell string) []byte {
	if !strings.ContainsAny(cell, ",\"\r\n") {
		return append(line, cell...)
	}
	line = append(line, '"')
	line = append(line, strings.ReplaceAll(cell, `"`, `""`)...)
	return append(line, '"')
}
