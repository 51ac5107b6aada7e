package transport

import (
	"net"
	"sync"
	"sync/atomic"
)

// greeting is the minimum number of bytes that a client sends before its first call: the HTTP/2
// preface and the header of its settings frame.
const greeting = 24 + 9

// conns are the open connections of a listener. Drain closes those that would delay it.
type conns struct {
	net.Listener

	mu   sync.Mutex
	open map[*conn]struct{}
}

// conn is a connection that counts the bytes from its client.
type conn struct {
	net.Conn
	of   *conns
	read atomic.Int64 // bytes received so far
}

func newConns(l net.Listener) *conns {
	return &conns{Listener: l, open: make(map[*conn]struct{})}
}

// Accept returns the next connection.
func (c *conns) Accept() (net.Conn, error) {
	raw, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &conn{Conn: raw, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[one] = struct{}{}
	return one, nil
}

// closeSilent closes the connections whose clients have not completed the greeting.
func (c *conns) closeSilent() {
	c.closeIf(func(one *conn) bool { return one.read.Load() < greeting })
}

// closeAll closes all connections.
func (c *conns) closeAll() {
	c.closeIf(func(*conn) bool { return true })
}

func (c *conns) closeIf(pick func(*conn) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.open {
		if pick(one) {
			one.Conn.Close()
		}
	}
}

// Read reads from the client.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.read.Load() < greeting {
		c.read.Add(int64(n))
	}
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
