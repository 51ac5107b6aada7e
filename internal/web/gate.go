package web

import (
	"crypto/tls"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// A Gate bounds how many connections some listeners have together. A connection above the
// bound is closed at once, counted, and logged once a minute. It is safe for concurrent use.
//
// A gate also leaves descriptors free: where the descriptors of a process are bounded, it closes
// connections whose descriptor is one of the last. So files can be read, and other listeners
// answer, when the clients of these listeners open as many connections as they can.
type Gate struct {
	most    int64 // connections; 0: any number
	reserve Reserve
	log     *slog.Logger
	open    atomic.Int64
	logged  atomic.Int64 // when, in Unix seconds
}

// logEvery is the time between two log lines about refused connections, in seconds.
const logEvery = 60

// Reserve is how many descriptors are left free: Most, or one in Share of all where that is
// less.
type Reserve struct{ Most, Share int }

// NewGate returns a gate for that many connections; 0 is no bound.
func NewGate(most int64, reserve Reserve, log *slog.Logger) *Gate {
	return &Gate{most: most, reserve: reserve, log: log}
}

// Doorway is a listener whose connections pass a gate.
type Doorway struct {
	net.Listener
	gate    *Gate
	name    string
	open    atomic.Int64
	refused atomic.Uint64
}

// Doorway returns l behind the gate. name is for the log.
func (g *Gate) Doorway(name string, l net.Listener) *Doorway {
	return &Doorway{Listener: l, gate: g, name: name}
}

// Accept returns the next connection that passes.
func (d *Doorway) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		why := d.gate.enter(c)
		if why == "" {
			d.open.Add(1)
			return &conn{Conn: c, of: d}, nil
		}
		d.refused.Add(1) // before its client can see it
		d.gate.tell(d, why)
		c.Close()
	}
}

// Open returns how many connections are open.
func (d *Doorway) Open() int64 { return d.open.Load() }

// Refused returns how many connections were refused.
func (d *Doorway) Refused() uint64 { return d.refused.Load() }

// enter counts a connection, or says why it may not stay.
func (g *Gate) enter(c net.Conn) (why string) {
	// Asked each time, as prlimit may change it while the process runs.
	if limit := descriptorLimit(); limit > 0 && descriptorOf(c) >= limit-min(g.reserve.Most, limit/g.reserve.Share) {
		return "nearly all file descriptors are in use"
	}
	if n := g.open.Add(1); g.most > 0 && n > g.most {
		g.open.Add(-1)
		return "as many are open as may be"
	}
	return ""
}

// tell logs a refused connection, unless one was logged within the last minute.
func (g *Gate) tell(d *Doorway, why string) {
	now, last := time.Now().Unix(), g.logged.Load()
	if now-last < logEvery && last <= now || !g.logged.CompareAndSwap(last, now) {
		return
	}
	g.log.Warn("connections refused", "listener", d.name, "reason", why, "open", g.open.Load(), "max", g.most, "refused", d.Refused(),
		"hint", "raise max-connections, or the limit of file descriptors (ulimit -n), or look for clients that leave connections open")
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	of     *Doorway
	closed atomic.Bool
}

// Close closes the connection.
func (c *conn) Close() error {
	if !c.closed.Swap(true) {
		c.of.open.Add(-1)
		c.of.gate.open.Add(-1)
	}
	return c.Conn.Close()
}

// CloseWrite says that nothing more is sent, and still reads, where the connection can.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Encrypt returns l with TLS where there is a configuration, else l.
func Encrypt(l net.Listener, config *tls.Config) net.Listener {
	if config == nil {
		return l
	}
	return tls.NewListener(l, config)
}
