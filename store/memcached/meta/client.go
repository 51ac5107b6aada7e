// Package meta is a client for the meta commands of memcached: pipelined text over a few connections.
package meta

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// DefaultConnections is the number of connections if Options set none.
	DefaultConnections = 4

	// dialTimeout bounds the making of a connection, with TLS and authentication.
	dialTimeout = time.Second

	// silence is how long a server may send nothing while it owes answers, until the connection counts
	// as lost.
	silence = 5 * time.Second

	// maxOwed is the largest number of commands without an answer on one connection.
	maxOwed = 1 << 16
)

// Errors of a Client, wrapped with what was wrong.
var (
	// ErrNotSent means that the server has not received the commands.
	ErrNotSent = errors.New("not sent")

	// ErrLost means that the server may have received the commands, and the answer was lost.
	ErrLost = errors.New("the answer was lost")

	// ErrRejected means that the server did not accept the user and the password.
	ErrRejected = errors.New("the server rejects the user or the password")

	// ErrClosed means that the Client is closed.
	ErrClosed = errors.New("closed")
)

// Options say where the server is, and how to reach it.
type Options struct {
	// Network and Address are those of net.Dial, such as "tcp" and "127.0.0.1:11211".
	Network, Address string

	// Login returns the user and the password, which are read for each new connection. Nil: the server
	// has no authentication.
	Login func() (user, password string, err error)

	// TLS encrypts the connections. Nil: they are plain.
	TLS *tls.Config

	// Connections is how many connections the Client makes; 0 means DefaultConnections. More let a
	// server with several threads work on more keys at once.
	Connections int
}

// Client sends commands to one server. It is safe for concurrent use. It connects at the first
// command, and again at the next one after a connection was lost. Commands of one place use one
// connection, so the server does them in the order in which they were sent. Close it in the end.
type Client struct {
	options Options
	conns   []conn
}

// New returns a Client. It does not connect.
func New(o Options) *Client {
	if o.Connections <= 0 {
		o.Connections = DefaultConnections
	}
	c := &Client{options: o, conns: make([]conn, o.Connections)}
	for i := range c.conns {
		c.conns[i].options = &c.options
	}
	return c
}

// Close closes all connections. Commands without an answer fail.
func (c *Client) Close() {
	for i := range c.conns {
		c.conns[i].close()
	}
}

// Do sends commands in one piece, and returns their answers in order. place chooses the connection. If
// ctx ends before the answers come, the error wraps ErrLost and that of ctx.
func (c *Client) Do(ctx context.Context, place uint64, commands ...Command) ([]Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	n := &c.conns[place%uint64(len(c.conns))]
	l, err := n.ready(ctx)
	if err != nil {
		return nil, err
	}
	ctx.Deadline() // the call is sent now: a guard's timeout begins
	p := &pending{lines: make([]bool, len(commands)), replies: make([]Reply, 0, len(commands)), done: make(chan struct{})}
	if err := l.send(p, commands); err != nil {
		return nil, err
	}
	select {
	case <-p.done:
		return p.replies, p.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrLost, ctx.Err())
	}
}

// Post sends commands after all that were sent for the place, and does not wait for the answers. It
// does nothing without a connection.
func (c *Client) Post(place uint64, commands ...Command) {
	n := &c.conns[place%uint64(len(c.conns))]
	n.mu.Lock()
	l := n.live
	n.mu.Unlock()
	if l != nil {
		_ = l.send(&pending{lines: make([]bool, len(commands)), done: make(chan struct{})}, commands) // nobody waits
	}
}

// conn is the place of one connection, which is made again after it was lost.
type conn struct {
	options *Options

	mu     sync.Mutex
	live   *link
	dial   *dialing // the attempt in progress; nil: none
	closed bool
}

// dialing is an attempt to connect.
type dialing struct {
	done chan struct{}
	live *link
	err  error
}

// ready returns a live connection. While one is made, all callers wait for that attempt, or until
// their contexts end.
func (n *conn) ready(ctx context.Context) (*link, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	}
	if l := n.live; l != nil {
		n.mu.Unlock()
		return l, nil
	}
	d := n.dial
	if d == nil {
		d = &dialing{done: make(chan struct{})}
		n.dial = d
		go n.connect(d)
	}
	n.mu.Unlock()
	select {
	case <-d.done:
		return d.live, d.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: no connection yet: %w", ErrNotSent, ctx.Err())
	}
}

// connect makes the connection of an attempt.
func (n *conn) connect(d *dialing) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	c, err := n.options.open(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dial = nil
	switch {
	case err != nil:
		d.err = fmt.Errorf("%w: %w", ErrNotSent, err)
	case n.closed:
		_ = c.Close() // nobody uses it
		d.err = fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	default:
		d.live = newLink(c, n.forget)
		n.live = d.live
	}
	close(d.done)
}

// forget removes a connection that was lost.
func (n *conn) forget(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live == l {
		n.live = nil
	}
}

func (n *conn) close() {
	n.mu.Lock()
	l := n.live
	n.closed = true
	n.mu.Unlock()
	if l != nil {
		l.fail(ErrClosed)
		l.stopped.Wait()
	}
}

// open connects, encrypts and authenticates.
func (o *Options) open(ctx context.Context) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, o.Network, o.Address)
	if err != nil {
		return nil, err
	}
	if o.TLS != nil {
		secure := tls.Client(c, o.TLS)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = c.Close() // the handshake's error is returned
			return nil, fmt.Errorf("TLS: %w", err)
		}
		c = secure
	}
	if err := o.login(ctx, c); err != nil {
		_ = c.Close() // the error is returned
		return nil, err
	}
	return c, nil
}
