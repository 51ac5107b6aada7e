package loadtest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/internal/text"
)

// respTarget speaks RESP2, one connection for each caller.
type respTarget struct {
	address string
	options Options
	command func(key int, cost uint32) []string
	read    func(reply any) (Answer, error)
}

// NewThrottle returns a target that sends CL.THROTTLE to the service at HOST:PORT. The limit is a token bucket per whole seconds.
func NewThrottle(address string, limit *stint.Limit, o Options) (Target, error) {
	s := limit.Spec()
	if s.Algorithm != stint.TokenBucket || s.Step || s.Per%time.Second != 0 || s.Burst == 0 {
		return nil, errors.New("loadtest: CL.THROTTLE has only token buckets, filled steadily, per whole seconds")
	}
	name := newPhrase(Placeholder, o.Prefix)
	burst, count, period := strconv.FormatUint(uint64(s.Burst)-1, 10), strconv.FormatUint(uint64(s.Requests), 10), strconv.FormatInt(int64(s.Per/time.Second), 10)
	t := &respTarget{address: address, options: o}
	t.command = func(key int, cost uint32) []string {
		return []string{"CL.THROTTLE", name.text(key), burst, count, period, strconv.FormatUint(uint64(cost), 10)}
	}
	t.read = func(reply any) (Answer, error) {
		list, _ := reply.([]any)
		if len(list) != 5 {
			return Answer{}, fmt.Errorf("the answer to CL.THROTTLE is %v", reply)
		}
		return Answer{Allowed: list[0] == int64(0)}, nil
	}
	return t, nil
}

// NewRuleCheck returns a target that sends STINT.CHECK to the service at HOST:PORT.
func NewRuleCheck(address string, d Descriptor, o Options) (Target, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	values := make([]phrase, len(d.Entries))
	for i, e := range d.Entries {
		values[i] = newPhrase(e.Value, o.Prefix)
	}
	t := &respTarget{address: address, options: o}
	t.command = func(key int, cost uint32) []string {
		args := []string{"STINT.CHECK", d.Domain, strconv.Itoa(len(d.Entries))}
		for i, e := range d.Entries {
			args = append(args, e.Key, values[i].text(key))
		}
		return append(args, "COST", strconv.FormatUint(uint64(cost), 10))
	}
	t.read = func(reply any) (a Answer, err error) {
		list, _ := reply.([]any)
		found := false
		for i := 0; i+1 < len(list); i += 2 {
			switch list[i] {
			case "allowed":
				a.Allowed, found = list[i+1] == int64(1), true
			case "degraded":
				a.Degraded = list[i+1] == int64(1)
			}
		}
		if !found {
			return a, fmt.Errorf("the answer to STINT.CHECK is %v", reply)
		}
		return a, nil
	}
	return t, nil
}

// Caller returns a caller with its own connection.
func (t *respTarget) Caller() Caller { return &respCaller{target: t} }

// Close does nothing: callers have connections of their own.
func (t *respTarget) Close() error { return nil }

// respCaller connects at its first call, and again after an error.
type respCaller struct {
	target *respTarget
	conn   net.Conn
	in     *bufio.Reader
	out    []byte
}

// Close closes the connection.
func (c *respCaller) Close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

// Ask sends the command.
func (c *respCaller) Ask(ctx context.Context, key int, cost uint32) (Answer, error) {
	if err := c.connect(ctx); err != nil {
		return Answer{}, err
	}
	// Ends reading and writing.
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	reply, err := c.do(c.target.command(key, cost))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if refused, ok := errors.AsType[respError](err); ok {
		return Answer{}, refused // the connection is in order
	}
	if err != nil {
		return Answer{}, errors.Join(err, c.Close())
	}
	return c.target.read(reply)
}

// connect connects, and sends the token.
func (c *respCaller) connect(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	var err error
	if c.target.options.TLS != nil {
		c.conn, err = (&tls.Dialer{Config: c.target.options.TLS}).DialContext(ctx, "tcp", c.target.address)
	} else {
		c.conn, err = new(net.Dialer).DialContext(ctx, "tcp", c.target.address)
	}
	if err != nil {
		c.conn = nil
		return err
	}
	c.in = bufio.NewReader(c.conn)
	if c.target.options.Token == "" {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = c.conn.SetDeadline(deadline)
	}
	if err == nil {
		_, err = c.do([]string{"AUTH", c.target.options.Token})
	}
	if err = errors.Join(err, c.conn.SetDeadline(time.Time{})); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

// do sends a command and reads its reply.
func (c *respCaller) do(args []string) (any, error) {
	c.out = fmt.Appendf(c.out[:0], "*%d\r\n", len(args))
	for _, a := range args {
		c.out = fmt.Appendf(c.out, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}
	return readReply(c.in, 0)
}

// respError is an error that a service replied.
type respError string

// Error returns the reply.
func (e respError) Error() string { return string(e) }

// The bounds of a reply.
const (
	mostReplyDepth = 4
	mostReplyItems = 1024
)

// readReply reads a reply of RESP2: a string, an int64, nil, or a []any of these. A reply that is an error is returned as a
// respError.
func readReply(r *bufio.Reader, depth int) (any, error) {
	slice, err := r.ReadSlice('\n') // at most the 4 KiB of the buffer
	if err != nil {
		return nil, err
	}
	line := strings.TrimRight(string(slice), "\r\n")
	if line == "" || depth > mostReplyDepth {
		return nil, errors.New("the answer is not RESP2")
	}
	switch rest := line[1:]; line[0] {
	case '+':
		return rest, nil
	case '-':
		return nil, respError(text.Shorten(rest))
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$':
		n, err := strconv.Atoi(rest)
		if n == -1 {
			return nil, err
		}
		if err != nil || n < 0 || n > mostBody {
			return nil, fmt.Errorf("the answer has a text of %s bytes", text.Shorten(rest))
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < -1 || n > mostReplyItems {
			return nil, fmt.Errorf("the answer has %s items", text.Shorten(rest))
		}
		list := make([]any, 0, max(n, 0))
		for range n {
			item, err := readReply(r, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	}
	return nil, fmt.Errorf("the answer is not RESP2 but begins with %s", text.Shorten(line))
}
