package resp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"stint/limiter"
	"stint/rule"
	"stint/server/access"
)

const (
	// partTimeout bounds how long the rest of a command may take after its first byte, and the AUTH of a client
	// that needs it. The writing of answers takes at most twice as long.
	partTimeout = 10 * time.Second

	// flushAt is how many bytes of answers are collected before they are sent, if further commands
	// have arrived already.
	flushAt = 64 << 10
)

// conn is a connection of a client.
type conn struct {
	net    net.Conn
	id     int64
	peer   netip.Addr
	in     *reader
	closed bool  // close after the answers are sent
	failed error // of the bytes after the last commands

	limited bool      // reading has a deadline
	renewed time.Time // when writing got its deadline

	// When the awaited command began, and how many ended before it; see by.
	began time.Time
	ended int

	name    string
	caller  access.Caller
	hasRole bool // caller is one of list
	list    place
	token   string // of caller
	tries   int    // of tokens that were wrong

	desk

	batch *batch   // commands that were read and are not decided; nil: there are none
	desks []*desk  // for commands that are decided at the same time
	ahead [][]byte // the command behind those, which was read with them
}

// desk is where commands are decided and answered, one after another.
type desk struct {
	server  *Server
	out     reply
	req     limiter.Request
	verdict limiter.Verdict
	entries []rule.Entry
	front   front // of the last decision
}

func newConn(s *Server, c net.Conn) *conn {
	one := &conn{net: c, id: s.ids.Add(1), in: newReader(c, s.open(), &s.room), desk: desk{server: s}}
	if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		one.peer = at.AddrPort().Addr().Unmap()
	}
	one.out.version = 2
	return one
}

// serve answers commands until the connection ends.
func (c *conn) serve() {
	defer c.net.Close()
	defer c.shed()
	for !c.closed {
		if !c.again() {
			args, err := c.next()
			switch {
			case err != nil:
				c.settle()
				c.fault(err)
			case args == nil:
				c.settle()
				if !c.flush() || !c.fill() {
					return
				}
			default:
				c.do(args)
			}
		}
		if len(c.out.buf) >= flushAt && !c.flush() {
			return
		}
	}
	c.flush()
}

// next returns the next command if all of it has arrived, else nil.
func (c *conn) next() ([][]byte, error) {
	if args := c.ahead; args != nil {
		c.ahead = nil
		return args, nil
	}
	if c.failed != nil {
		return nil, c.failed // what followed the commands before
	}
	return c.in.next()
}

// fault answers what is wrong with the bytes of a client, and closes the connection after that.
func (c *conn) fault(err error) {
	c.out.fail("ERR " + err.Error())
	c.server.misuse.Report(c.peer, err.Error(), "send commands of the Redis protocol to this address")
	c.closed = true
}

// flush sends the answers. It reports whether that was possible.
func (c *conn) flush() bool {
	if len(c.out.buf) == 0 {
		return true
	}
	if now := time.Now(); now.Sub(c.renewed) >= partTimeout {
		if c.net.SetWriteDeadline(now.Add(2*partTimeout)) != nil {
			return false
		}
		c.renewed = now
	}
	_, err := c.net.Write(c.out.buf)
	if cap(c.out.buf) > 2*flushAt {
		c.out.buf = nil
	}
	c.out.buf = c.out.buf[:0]
	return err == nil
}

// fill waits for more bytes. It reports whether there are any.
func (c *conn) fill() bool {
	by, part := c.by()
	if !part && c.in.buf == nil {
		c.shed() // of a large command
	}
	for {
		deadline, large := by, !part && c.large()
		if large {
			deadline = time.Now().Add(keptFor)
		}
		if !c.until(deadline) {
			return false
		}
		if l := c.server.leaving.Load(); l != nil {
			if !part && time.Now().After(l.until) {
				c.leave(l)
				return false
			}
			c.hurry(l)
			c.limited, large = true, false
		}
		err := c.in.fill()
		switch {
		case large && errors.Is(err, os.ErrDeadlineExceeded):
			c.shed()
			continue
		case errors.Is(err, errNoRoom):
			c.fault(err)
			return c.flush() && false
		case errors.Is(err, errTooLarge):
			c.fault(protocolError(err.Error()))
			return c.flush() && false
		}
		return err == nil
	}
}

// until sets the time by which more bytes must come; zero: any. It reports whether that was possible.
func (c *conn) until(at time.Time) bool {
	if at.IsZero() && !c.limited {
		return true // as before
	}
	c.limited = !at.IsZero()
	return c.net.SetReadDeadline(at) == nil
}

// by returns when what is awaited must have come: the rest of a command, or AUTH, counted from its first
// byte and from the beginning. A client may take any time for its next command.
func (c *conn) by() (at time.Time, part bool) {
	switch {
	case c.in.known && !c.in.more():
		c.began = time.Time{}
		return c.began, false
	case c.began.IsZero(), c.in.known && c.ended != c.in.ended:
		c.began, c.ended = time.Now(), c.in.ended
	}
	return c.began.Add(c.server.options.partTimeout), true
}

const (
	// keptFor is how long a silent connection keeps the memory of its commands, if that is much. So those
	// who ask again and again need no new memory, and those who wait have little.
	keptFor = time.Second

	// Above these a connection has much memory: arguments, entries of descriptors, and descriptors.
	keptArgs        = 64
	keptEntries     = 64
	keptDescriptors = 16
)

// large reports whether the connection keeps much memory of the commands before.
func (c *conn) large() bool {
	return cap(c.in.buf) > firstBuffer || cap(c.in.out) > keptArgs || cap(c.out.buf) > firstBuffer ||
		cap(c.entries) > keptEntries || cap(c.req.Descriptors) > keptDescriptors || len(c.desks) > 0
}

// shed drops the memory of the commands before: they are answered.
func (c *conn) shed() {
	c.in.shed()
	c.desk = desk{server: c.server, out: reply{version: c.out.version}}
	c.desks = nil
}

// hurry makes the connection end if it sends nothing for a while.
func (c *conn) hurry(l *leaving) {
	_ = c.net.SetReadDeadline(time.Now().Add(l.silent)) // an error: it has ended
}

// leave ends a connection whose commands are answered, while its client goes on sending. If it were closed
// with bytes that nobody has read, the system would drop the answers that the client has not yet received.
// So the client first gets the end of the answers, and its further bytes are dropped until it closes, or
// sends nothing for a while.
func (c *conn) leave(l *leaving) {
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	for rest := make([]byte, firstBuffer); ; {
		c.hurry(l)
		if _, err := c.net.Read(rest); err != nil {
			return
		}
	}
}

// do answers a command.
func (c *conn) do(args [][]byte) {
	var name [32]byte
	cmd := commands[string(upper(name[:0], args[0]))]
	if c.hasRole && c.list.changed() {
		c.identifyAgain()
	}
	if cmd != nil && cmd.later != nil && c.in.known && cmd.later(c, args) {
		return
	}
	c.settle()
	switch {
	case cmd == nil:
		c.unknown(args)
	case !c.in.known && !cmd.early:
		c.out.fail("NOAUTH Authentication required.")
	case cmd.args > 0 && len(args) != cmd.args || len(args) < -cmd.args:
		c.out.fail("ERR wrong number of arguments for '" + cmd.name + "' command")
	case cmd.decide == nil:
		cmd.do(c, args)
	case c.server.options.Together && c.in.more():
		c.together(cmd, args)
	default:
		cmd.decide(&c.desk, args)
	}
}

const (
	// mostTogether is how many commands of a pipeline are decided at the same time, and togetherBytes how
	// many bytes of them. An answer may have ten times the bytes of its command.
	mostTogether  = 1000
	togetherBytes = 256 << 10
)

// together decides a command and those that follow it in what has arrived, at the same time, and
// answers them in order.
func (c *conn) together(cmd *command, args [][]byte) {
	var all sync.WaitGroup
	var next [][]byte
	n, from := 0, c.in.at
	for cmd != nil && cmd.decide != nil && (cmd.args < 0 && len(args) >= -cmd.args) && n < mostTogether && c.in.at-from < togetherBytes {
		if n == len(c.desks) {
			c.desks = append(c.desks, &desk{server: c.server})
		}
		d, decide, own := c.desks[n], cmd.decide, slices.Clone(args)
		d.out = reply{d.out.buf[:0], c.out.version}
		all.Go(func() { decide(d, own) })
		n++
		next, c.failed = c.in.next()
		if next == nil {
			break
		}
		var name [32]byte
		cmd, args = commands[string(upper(name[:0], next[0]))], next
	}
	all.Wait()
	for _, d := range c.desks[:n] {
		c.out.buf = append(c.out.buf, d.out.buf...)
	}
	if cap(c.desks) > keptDesks {
		c.desks = nil
	}
	c.ahead = next
}

// keptDesks is how many desks a connection keeps for its next pipeline.
const keptDesks = 128

// upper appends name in capital letters to dst; a name that is longer than any command is cut.
func upper(dst, name []byte) []byte {
	for _, b := range name[:min(len(name), cap(dst))] {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A'
		}
		dst = append(dst, b)
	}
	return dst
}

// shown is how many bytes of an argument an error shows.
const shown = 128

// unknown answers a command that there is not, as Redis does. A line of HTTP ends the connection: it is
// from a browser, not from a Redis client.
func (c *conn) unknown(args [][]byte) {
	if equal(args[0], "POST") || equal(args[0], "Host:") || c.in.line && bytes.HasPrefix(args[len(args)-1], []byte("HTTP/")) {
		c.server.misuse.Report(c.peer, "HTTP at the address of the Redis protocol", "send HTTP to the address of --http")
		c.closed = true
		return
	}
	text := fmt.Sprintf("ERR unknown command '%s', with args beginning with: ", cut(args[0]))
	for _, a := range args[1:] {
		if len(text) > 2*shown {
			break
		}
		text += "'" + cut(a) + "' "
	}
	c.out.fail(text)
}

// cut returns the first bytes of b, without control characters.
func cut(b []byte) string {
	b = b[:min(len(b), shown)]
	out := make([]byte, 0, len(b))
	for _, one := range b {
		if one < ' ' {
			one = '.'
		}
		out = append(out, one)
	}
	return string(out)
}

// may reports whether the caller has a role, and answers if not.
func (c *conn) may(role access.Role, name string) bool {
	open := len(c.server.options.Lists) == 0
	if open || c.hasRole && c.caller.Role >= role {
		return true
	}
	c.out.fail("NOPERM " + name + " needs the role " + role.String() + ": send AUTH with the token of a caller of --admin-access who has it")
	return false
}
