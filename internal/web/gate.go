package web

import (
	"crypto/tls"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// Gate limits how many connections several listeners have together. It closes a connection above
// the limit at once, counts it, and logs that once a minute. It is safe for concurrent use.
//
// A gate also reserves file descriptors: if the process may have only so many, it closes
// connections whose descriptor is one of the last. So files can be read, and other listeners
// answer, even if the clients of these listeners open as many connections as they can.
type Gate struct {
	most    int64 // most connections; 0: no limit
	reserve Reserve
	log     *slog.Logger
	open    atomic.Int64
	logged  atomic.Int64 // time of the last log line, in Unix seconds
}

// logEvery is the time between two log lines about refused connections, in seconds.
const logEvery = 60

// Reserve is how many descriptors stay free: Most, or 1/Share of all if that is less.
type Reserve struct{ Most, Share int }

// NewGate returns a gate for most connections; 0 means no limit.
func NewGate(most int64, reserve Reserve, log *slog.Logger) *Gate {
	return &Gate{most: most, reserve: reserve, log: log}
}

// GatedListener is a listener that closes connections which its gate refuses.
type GatedListener struct {
	net.Listener
	gate    *Gate
	name    string
	open    atomic.Int64
	refused atomic.Uint64
}

// Wrap returns l behind the gate. name is for the log.
func (g *Gate) Wrap(name string, l net.Listener) *GatedListener {
	return &GatedListener{Listener: l, gate: g, name: name}
}

// Accept returns the next connection that the gate admits.
func (d *GatedListener) Accept() (net.Conn, error) {
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
		d.refused.Add(1) // count before the client can see the close
		d.gate.logRefused(d, why)
		c.Close()
	}
}

// Open returns how many connections are open.
func (d *GatedListener) Open() int64 { return d.open.Load() }

// Refused returns how many connections were refused.
func (d *GatedListener) Refused() uint64 { return d.refused.Load() }

// enter counts a connection, or returns why the gate refuses it.
func (g *Gate) enter(c net.Conn) (why string) {
	// Read each time, as prlimit may change the limit while the process runs.
	if limit := descriptorLimit(); limit > 0 && descriptorOf(c) >= limit-min(g.reserve.Most, limit/g.reserve.Share) {
		return "nearly all file descriptors are in use"
	}
	if n := g.open.Add(1); g.most > 0 && n > g.most {
		g.open.Add(-1)
		return "as many are open as may be"
	}
	return ""
}

// logRefused logs a refused connection, unless one was logged within the last minute.
func (g *Gate) logRefused(d *GatedListener, why string) {
	now, last := time.Now().Unix(), g.logged.Load()
	if now-last < logEvery && last <= now || !g.logged.CompareAndSwap(last, now) {
		return
	}
	g.log.Warn("connections refused", "listener", d.name, "reason", why, "open", g.open.Load(), "max", g.most, "refused", d.Refused(),
		"hint", "raise max-connections, or the limit of file descriptors (ulimit -n), or look for clients that leave connections open")
}

// conn is a counted connection.
type conn struct {
	net.Conn
	of     *GatedListener
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

// CloseWrite closes the sending side, if the connection supports that.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Encrypt returns l with TLS if config is not nil, else l.
func Encrypt(l net.Listener, config *tls.Config) net.Listener {
	if config == nil {
		return l
	}
	return tls.NewListener(l, config)
}
