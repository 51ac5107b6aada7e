package accesslog

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"stint/internal/text"
)

// Input is one log, or one part of a log that was rotated.
type Input struct {
	// Name stands in reports and errors.
	Name string

	// Size is how many bytes Open will yield, 0 if nobody knows. Progress uses it.
	Size int64

	// Open is called once, when everything before has been read.
	Open func() (io.ReadCloser, error)
}

// InputError says which input cannot be read and what to do.
type InputError struct {
	Name, Problem, Hint string
	Err                 error // the cause, if there is one
}

// Error returns the name and the problem. The hint stands apart.
func (e *InputError) Error() string { return e.Name + ": " + e.Problem }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// File returns the input of a file. It is opened when its turn comes; that it is
// there and no folder is checked at once. The error is an [*InputError].
func File(path string) (Input, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Input{}, &InputError{Name: path, Problem: text.Cause(err), Hint: "name a log file, or - for standard input", Err: err}
	case info.IsDir():
		return Input{}, &InputError{Name: path, Problem: "is a folder", Hint: "name the log files in it, oldest first"}
	}
	in := Input{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	if info.Mode().IsRegular() {
		in.Size = info.Size()
	}
	return in, nil
}

// Reader returns an input of unknown size, such as standard input.
func Reader(name string, r io.Reader) Input {
	return Input{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }}
}

const (
	blockSize = 256 << 10 // bytes read at once
	maxLine   = 4 << 20   // bytes of a line; the rest of a longer one is skipped
)

// packed names formats that are not unpacked here, by their magic bytes.
var packed = []struct{ magic, name, tool string }{
	{"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"},
	{"BZh", "bzip2", "bzip2 -dc"},
	{"\xfd7zXZ\x00", "xz", "xz -dc"},
	{"PK\x03\x04", "zip", "unzip -p"},
}

// Lines reads an input line by line. It is not safe for concurrent use.
type Lines struct {
	name string
	src  io.Reader
	file io.ReadCloser
	buf  []byte // what was read is buf[from:to]
	from int
	to   int
	skip bool  // the rest of a line that was too long
	end  error // what ended the reading
}

// Open starts to read an input. It calls read with the number of bytes that came, before they
// are unpacked; an error of read ends the reading. buf is memory to use, or nil. The error is an
// [*InputError].
func Open(in Input, buf []byte, read func(int) error) (*Lines, error) {
	f, err := in.Open()
	if err != nil {
		return nil, &InputError{Name: in.Name, Problem: "cannot be opened: " + err.Error(), Hint: "check that it exists and may be read", Err: err}
	}
	raw := bufio.NewReaderSize(&countingReader{f, read}, blockSize)
	l := &Lines{name: in.Name, src: raw, file: f, buf: buf}
	if len(l.buf) < blockSize {
		l.buf = make([]byte, blockSize)
	}
	magic, err := raw.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, readError(in.Name, err)
	}
	for _, p := range packed {
		if bytes.HasPrefix(magic, []byte(p.magic)) {
			f.Close()
			return nil, &InputError{
				Name: in.Name, Problem: "is packed with " + p.name,
				Hint: fmt.Sprintf("unpack it on the way: %s %s | stint replay ... -", p.tool, in.Name),
			}
		}
	}
	if bytes.HasPrefix(magic, []byte("\x1f\x8b")) {
		if l.src, err = gzip.NewReader(raw); err != nil {
			f.Close()
			return nil, readError(in.Name, err)
		}
	}
	return l, nil
}

func readError(name string, err error) error {
	return &InputError{Name: name, Problem: "cannot be read: " + err.Error(), Hint: "check the disk, or the program that writes into the pipe", Err: err}
}

// Close closes the input.
func (l *Lines) Close() { l.file.Close() }

// Buffer returns the memory that Open was given or made, to be used for the next input.
func (l *Lines) Buffer() []byte { return l.buf }

// Err returns why Next returned false: nil at the end of the input, else an [*InputError].
func (l *Lines) Err() error {
	if errors.Is(l.end, io.EOF) {
		return nil
	}
	return readError(l.name, l.end)
}

// Cause returns the error that ended the reading, io.EOF at the end of the input.
func (l *Lines) Cause() error { return l.end }

// Damaged reports whether the input ended in damaged gzip data, as a log does that is still being
// written.
func (l *Lines) Damaged() bool {
	err := l.end
	var corrupt flate.CorruptInputError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt)
}

// Next returns the next line without its line end, and false after the last one; see Err. The
// line is valid until the next call.
func (l *Lines) Next() ([]byte, bool) {
	scanned := l.from
	for {
		if i := bytes.IndexByte(l.buf[scanned:l.to], '\n'); i >= 0 {
			line := l.buf[l.from : scanned+i]
			l.from = scanned + i + 1
			scanned = l.from
			if l.skip {
				l.skip = false
				continue
			}
			return trimReturn(line), true
		}
		scanned = l.to
		if l.skip {
			l.from = l.to
		}
		if l.end != nil {
			line := l.buf[l.from:l.to]
			l.from = l.to
			return trimReturn(line), len(line) > 0 && !l.skip
		}
		if l.from == 0 && l.to == maxLine { // too long: this is all of it that counts
			l.from, l.skip = l.to, true
			return l.buf[:l.to], true
		}
		scanned -= l.fill()
	}
}

// fill reads more behind what is there, and returns by how much that has moved.
func (l *Lines) fill() int {
	moved := l.from
	if l.from > 0 {
		copy(l.buf, l.buf[l.from:l.to])
		l.from, l.to = 0, l.to-l.from
	}
	if l.to == len(l.buf) {
		l.buf = append(make([]byte, 0, 2*len(l.buf)), l.buf...)
		l.buf = l.buf[:cap(l.buf)]
	}
	n, err := l.src.Read(l.buf[l.to:min(len(l.buf), maxLine)])
	l.to += n
	l.end = err
	return moved
}

func trimReturn(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// countingReader tells how much is read, and is told whether to go on.
type countingReader struct {
	r    io.Reader
	read func(int) error
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if stop := c.read(n); stop != nil {
		return n, stop
	}
	return n, err
}
