package accesslog

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"stint/internal/text"
)

// Input is one log, or one part of a rotated log.
type Input struct {
	// Name is used in reports and errors.
	Name string

	// Size is the number of bytes that Open yields, for progress; 0 if unknown.
	Size int64

	// Open is called once, after all earlier inputs have been read.
	Open func() (io.ReadCloser, error)
}

// InputError is returned for an input that cannot be read.
type InputError struct {
	Name, Problem, Hint string
	Err                 error // the cause; may be nil
}

// Error returns the name and the problem, without the hint.
func (e *InputError) Error() string { return e.Name + ": " + e.Problem }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// File returns the input of a file. It checks at once that the file exists and is not a folder, but
// opens it only when it is read. The error is an [*InputError].
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

// Until returns the input with an Open and reads that end with the error of ctx when ctx ends, even while
// they wait, as for the other end of a pipe.
func (in Input) Until(ctx context.Context) Input {
	open := in.Open
	in.Open = func() (io.ReadCloser, error) {
		f, err := until(ctx, open)
		if err != nil {
			return nil, err
		}
		return &untilReader{f, ctx}, nil
	}
	return in
}

// untilReader is a reader of [Input.Until].
type untilReader struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // Read has no argument for it
}

// Read reads. After the end of ctx a read that still waits may write into p.
func (r *untilReader) Read(p []byte) (int, error) {
	return until(r.ctx, func() (int, error) { return r.ReadCloser.Read(p) })
}

// until returns what do returns, or the error of ctx if it ends before.
func until[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

const (
	blockSize = 256 << 10 // bytes per read
	maxLine   = 4 << 20   // maximum bytes of a line; the rest of a longer line is skipped
)

// packed are compression formats that are not supported, by their magic bytes.
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
	buf  []byte // buf[from:to] was read and not returned yet
	from int
	to   int
	skip bool  // the rest of a too long line must be skipped
	end  error // error that ended reading
}

// Open starts to read an input. It calls read with the number of (compressed) bytes of each read;
// an error of read ends reading. buf is a buffer to use, or nil. The error is an [*InputError].
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

// Buffer returns the buffer, which can be used for the next input.
func (l *Lines) Buffer() []byte { return l.buf }

// Err returns why Next returned false: nil at the end of the input, otherwise an [*InputError].
func (l *Lines) Err() error {
	if errors.Is(l.end, io.EOF) {
		return nil
	}
	return readError(l.name, l.end)
}

// Cause returns the error that ended reading; io.EOF at the end of the input.
func (l *Lines) Cause() error { return l.end }

// Damaged reports whether the input ended with damaged gzip data, like a log that is still being
// written.
func (l *Lines) Damaged() bool {
	err := l.end
	var corrupt flate.CorruptInputError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt)
}

// stopped reports whether the reader wanted no more, so that the last line may be a part of one.
func (l *Lines) stopped() bool {
	return errors.Is(l.end, context.Canceled) || errors.Is(l.end, context.DeadlineExceeded)
}

// Next returns the next line without its line break, or false after the last line; see Err. The
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
			return trimReturn(line), len(line) > 0 && !l.skip && !l.stopped()
		}
		if l.from == 0 && l.to == maxLine { // too long: return the beginning only
			l.from, l.skip = l.to, true
			return l.buf[:l.to], true
		}
		scanned -= l.fill()
	}
}

// fill reads more data. It returns by how many bytes it moved the existing data.
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

// countingReader calls a function with the number of bytes of each read, and fails if the function
// does.
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
