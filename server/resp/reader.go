package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
)

// Bounds on what a client may make the server keep.
const (
	// MaxCommand is the most bytes of one command. The largest that has a meaning is STINT.MCHECK
	// with many long values.
	MaxCommand = 4 << 20

	// maxArgs is the most arguments of one command: those of the largest STINT.MCHECK, and a few more.
	maxArgs = 1 << 18

	// maxInline is the most bytes of a command in one line, and of the line of a number.
	maxInline = 64 << 10

	// inlineArgs is the most arguments of a command in one line.
	inlineArgs = 256

	// Before AUTH, as in Redis.
	maxArgsUnknown  = 10
	maxBytesUnknown = 16 << 10

	// maxName is the most bytes of a connection's name, which it keeps while it is idle.
	maxName = 256

	// maxNames is the most names of one COMMAND INFO or DOCS. The answer has ten times the bytes of a name.
	maxNames = 256

	// firstBuffer is the size of a new buffer. One above keptBuffer is dropped when it is empty.
	firstBuffer = 16 << 10
	keptBuffer  = 128 << 10

	// maxLarge is the most bytes of the buffers above keptBuffer, of all connections together.
	maxLarge = 128 << 20
)

// room is what is left of the bytes that large buffers may take. It is safe for concurrent use.
type room struct{ left atomic.Int64 }

// take takes n bytes. It reports whether there were as many.
func (r *room) take(n int64) bool {
	if r.left.Add(-n) < 0 {
		r.left.Add(n)
		return false
	}
	return true
}

// protocolError is a fault in what the client sent. Where the next command begins is not known after
// it, so the connection ends.
type protocolError string

// Error returns the text that Redis has for it.
func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// reader splits what a connection sends into commands. Commands that arrived together are returned
// one after another without another read.
type reader struct {
	from io.Reader
	buf  []byte // what was read and is not consumed: buf[at:]
	at   int    // where the current command begins

	// The state of a command of which a part has arrived.
	first int // where its first argument begins; 0: the number of arguments is not read yet
	count int // its arguments
	pos   int // up to which buf is parsed
	seen  int // arguments before pos

	ended int  // how many commands have ended
	line  bool // the last command came in one line
	known bool // the client has authenticated, or need not
	out   [][]byte

	room  *room
	taken int64 // of it
}

// newReader returns a reader of commands from from, which takes the memory for large ones from all.
func newReader(from io.Reader, known bool, all *room) *reader {
	return &reader{from: from, known: known, room: all}
}

// more reports whether a part of a further command has arrived.
func (r *reader) more() bool { return r.at < len(r.buf) }

// next returns the next command if all of it has arrived, else nil. The arguments are valid until the
// next call of fill. The error is a protocolError.
func (r *reader) next() ([][]byte, error) {
	for r.at < len(r.buf) {
		done, err := r.parse()
		if err != nil || !done {
			return nil, err
		}
		r.at, r.first, r.count, r.seen = r.pos, 0, 0, 0
		r.ended++
		if len(r.out) > 0 {
			return r.out, nil
		}
		// An empty command has no answer.
	}
	r.buf, r.at, r.pos = r.buf[:0], 0, 0
	if cap(r.buf) > keptBuffer {
		r.shed()
	}
	return nil, nil
}

// shed drops the memory of the commands before. Their arguments are part of the buffer, so that nothing
// of the one may be kept without the other.
func (r *reader) shed() {
	r.buf, r.out = nil, nil
	r.room.left.Add(r.taken)
	r.taken = 0
}

// fewArgs is up to how many arguments are collected while they are counted. Those of larger commands
// are collected when all have arrived, so that they take no memory before that.
const fewArgs = 64

// parse goes on with the command at r.at. It reports whether all of it has arrived; then r.out are its
// arguments.
func (r *reader) parse() (done bool, err error) {
	if r.first == 0 {
		r.pos, r.out = r.at, r.out[:0]
		if r.line = r.buf[r.at] != '*'; r.line {
			return r.inline()
		}
		n, ok, err := r.number("multibulk length", "too big mbulk count string")
		if !ok || err != nil {
			return false, err
		}
		switch {
		case n > maxArgs:
			return false, protocolError("invalid multibulk length")
		case n > maxArgsUnknown && !r.known:
			return false, protocolError("unauthenticated multibulk length")
		}
		r.first, r.count = r.pos, int(max(n, 0))
	}
	collect := r.seen == 0 && r.count <= fewArgs
	for r.seen < r.count {
		from, to, ok, err := r.bulk()
		if !ok || err != nil {
			return false, err
		}
		r.seen++
		if collect {
			r.out = append(r.out, r.buf[from:to:to])
		}
	}
	if !collect {
		r.collect()
	}
	return true, nil
}

// collect collects the arguments of a command that has arrived.
func (r *reader) collect() {
	r.out, r.pos = slices.Grow(r.out[:0], r.count), r.first
	for range r.count {
		from, to, _, _ := r.bulk() // it was parsed before
		r.out = append(r.out, r.buf[from:to:to])
	}
}

// bulk parses one argument.
func (r *reader) bulk() (from, to int, ok bool, err error) {
	if r.pos >= len(r.buf) {
		return 0, 0, false, nil
	}
	if c := r.buf[r.pos]; c != '$' {
		return 0, 0, false, protocolError(fmt.Sprintf("expected '$', got '%c'", printable(c)))
	}
	before := r.pos
	n, ok, err := r.number("bulk length", "too big bulk count string")
	if !ok || err != nil {
		return 0, 0, false, err
	}
	switch {
	case n < 0 || n > MaxCommand || r.pos-r.at+int(n) > MaxCommand:
		return 0, 0, false, protocolError("invalid bulk length")
	case n > maxBytesUnknown && !r.known:
		return 0, 0, false, protocolError("unauthenticated bulk length")
	}
	from, to = r.pos, r.pos+int(n)
	if to+2 > len(r.buf) {
		r.pos = before
		return 0, 0, false, nil
	}
	if r.buf[to] != '\r' || r.buf[to+1] != '\n' {
		return 0, 0, false, protocolError("expected CRLF after a bulk string")
	}
	r.pos = to + 2
	return from, to, true, nil
}

// number parses the line at r.pos: a letter, a number, CRLF.
func (r *reader) number(what, tooLong string) (n int64, ok bool, err error) {
	line := r.buf[r.pos:]
	end := bytes.IndexByte(line, '\r')
	if end < 0 {
		if len(line) > maxInline {
			return 0, false, protocolError(tooLong)
		}
		return 0, false, nil
	}
	if end+1 >= len(line) {
		return 0, false, nil
	}
	n, valid := parseInt(line[1:end])
	if !valid || line[end+1] != '\n' || end > maxInline {
		return 0, false, protocolError("invalid " + what)
	}
	r.pos += end + 2
	return n, true, nil
}

// parseInt parses a decimal number as Redis does: no sign but a minus, no leading zeros.
func parseInt(b []byte) (n int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || b[0] == '0' && (len(b) > 1 || negative) {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u-1) - 1, true
	case negative || u > math.MaxInt64:
		return 0, false
	}
	return int64(u), true
}

// inline parses a command in one line, as people type it.
func (r *reader) inline() (done bool, err error) {
	line := r.buf[r.pos:]
	end := bytes.IndexByte(line, '\n')
	if end > maxInline || end < 0 && len(line) > maxInline {
		return false, protocolError("too big inline request")
	}
	if end < 0 {
		return false, nil
	}
	r.pos += end + 1
	line = bytes.TrimSuffix(line[:end], []byte("\r"))
	for i := 0; i < len(line); {
		if space(line[i]) {
			i++
			continue
		}
		arg, next, err := word(line, i)
		if err != nil {
			return false, err
		}
		if len(r.out) == inlineArgs {
			return false, protocolError("too big inline request")
		}
		r.out = append(r.out, slices.Clip(arg))
		i = next
	}
	return true, nil
}

// word parses the argument that begins at i of a line. Text in quotes is decoded in place: it never
// becomes longer. next is where the next argument may begin.
func word(line []byte, i int) (arg []byte, next int, err error) {
	arg = line[i:i]
	put := func(c byte) { arg = append(arg, c) }
	for i < len(line) && !space(line[i]) {
		quote := line[i]
		if quote != '"' && quote != '\'' {
			put(quote)
			i++
			continue
		}
		for i++; ; i++ {
			if i >= len(line) {
				return arg, 0, errQuotes
			}
			c := line[i]
			switch {
			case c == quote:
			case c == '\\' && quote == '"' && i+1 < len(line):
				var used int
				c, used = escape(line[i+1:])
				i += used
				put(c)
				continue
			case c == '\\' && i+1 < len(line) && line[i+1] == '\'':
				i++
				put('\'')
				continue
			default:
				put(c)
				continue
			}
			break
		}
		if i++; i < len(line) && !space(line[i]) {
			return arg, 0, errQuotes
		}
	}
	return arg, i, nil
}

const errQuotes = protocolError("unbalanced quotes in request")

// escape decodes what follows a backslash, and returns how many bytes that is.
func escape(b []byte) (c byte, used int) {
	switch b[0] {
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'b':
		return '\b', 1
	case 'a':
		return '\a', 1
	case 'x':
		if len(b) >= 3 {
			high, ok := hexDigit(b[1])
			low, also := hexDigit(b[2])
			if ok && also {
				return high<<4 | low, 3
			}
		}
	}
	return b[0], 1
}

func hexDigit(c byte) (n byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

func space(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' || c == 0 }

// printable returns c, or a question mark for what would spoil a line of the protocol.
func printable(c byte) rune {
	if c < ' ' || c > '~' {
		return '?'
	}
	return rune(c)
}

// Why a command cannot be read whole.
var (
	errTooLarge = errors.New("a command is too large")
	errNoRoom   = errors.New("too many large commands arrive at once: send it again, or several smaller ones")
)

// fill reads more from the connection. It waits for at least one byte.
func (r *reader) fill() error {
	r.compact()
	if len(r.buf) == cap(r.buf) {
		if len(r.buf) > MaxCommand+maxInline {
			return errTooLarge
		}
		size := int64(max(firstBuffer, 2*cap(r.buf)))
		if size > keptBuffer {
			if !r.room.take(size - r.taken) {
				return errNoRoom
			}
			r.taken = size
		}
		larger := make([]byte, len(r.buf), size)
		copy(larger, r.buf)
		r.buf = larger
	}
	n, err := r.from.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// compact moves what is not consumed to the front of the buffer.
func (r *reader) compact() {
	if r.at == 0 {
		return
	}
	n := copy(r.buf, r.buf[r.at:])
	r.buf = r.buf[:n]
	r.pos -= r.at
	if r.first > 0 {
		r.first -= r.at
	}
	r.at = 0
}
