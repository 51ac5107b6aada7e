package resp

import (
	"strconv"
	"time"

	"stint"
	"stint/limiter/response"
)

// reply builds the answers to commands, one after another, in version 2 or 3 of the protocol.
type reply struct {
	buf     []byte
	version int
}

// simple appends a status, such as OK.
func (r *reply) simple(s string) { r.buf = append(append(append(r.buf, '+'), s...), "\r\n"...) }

// fail appends an error. The text begins with a code, such as ERR.
func (r *reply) fail(text string) {
	r.buf = append(r.buf, '-')
	for i := range len(text) {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		r.buf = append(r.buf, c)
	}
	r.buf = append(r.buf, "\r\n"...)
}

// number appends an integer.
func (r *reply) number(n int64) { r.line(':', n) }

func (r *reply) line(kind byte, n int64) {
	if 0 <= n && n < 10 {
		r.buf = append(r.buf, kind, byte('0'+n), '\r', '\n')
		return
	}
	r.buf = append(strconv.AppendInt(append(r.buf, kind), n, 10), '\r', '\n')
}

// text appends a string of any bytes.
func (r *reply) text(s string) {
	r.line('$', int64(len(s)))
	r.buf = append(append(r.buf, s...), "\r\n"...)
}

// null appends no value.
func (r *reply) null() {
	if r.version == 3 {
		r.buf = append(r.buf, "_\r\n"...)
		return
	}
	r.buf = append(r.buf, "$-1\r\n"...)
}

// truth appends a boolean: in version 2 the number 1 or 0.
func (r *reply) truth(b bool) {
	switch {
	case r.version == 3 && b:
		r.buf = append(r.buf, "#t\r\n"...)
	case r.version == 3:
		r.buf = append(r.buf, "#f\r\n"...)
	case b:
		r.number(1)
	default:
		r.number(0)
	}
}

// array begins an array of n values.
func (r *reply) array(n int) { r.line('*', int64(n)) }

// object begins a map of n names and values: in version 2 an array of twice as many values.
func (r *reply) object(n int) {
	if r.version == 3 {
		r.line('%', int64(n))
		return
	}
	r.array(2 * n)
}

// units appends a number of units; null if unlimited.
func (r *reply) units(n int64) {
	if n == stint.NoLimit {
		r.null()
		return
	}
	r.number(n)
}

// millis appends a duration in milliseconds, rounded up, and -1 for never.
func (r *reply) millis(d time.Duration) { r.number(response.Millis(d)) }
