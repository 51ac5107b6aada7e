package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"stint/app/settings"
	"stint/internal/web"
)

// silence is how long connections that have sent nothing are kept while the service
// stops.
const silence = 500 * time.Millisecond

// A listener is one address that is served.
type listener struct {
	setting string // "http", "admin" or another that has an address
	address string
	server  answerer
	tls     *tls.Config  // of connections of HTTP; nil: they are not encrypted, or by server
	net     *web.Doorway // nil before it is open
	log     *slog.Logger
}

// An answerer answers what a listener accepts.
type answerer interface {
	// Serve answers until Drain, and then returns nil. An error says that it cannot go on.
	Serve(net.Listener) error

	// Ready tells callers that more calls are welcome, or that the end is near; calls are
	// accepted all the same. Drain tells them by itself.
	Ready(bool)

	// Drain accepts nothing more and waits for the calls in flight until ctx is done; then
	// it cuts them and says so. Connections whose clients can be told only in an answer stay
	// open for linger; those that have sent nothing are closed at silent after that.
	Drain(ctx context.Context, linger, silent time.Duration) (cut bool)
}

// newListener returns a listener that is to take an address.
func newListener(setting, address string, log *slog.Logger) *listener {
	return &listener{setting: setting, address: address, log: log.With("listener", setting)}
}

// watches says whether the listener is for people and monitoring, and so closes last.
func (l *listener) watches() bool { return l.setting == "admin" || l.setting == "metrics" }

// open takes the address.
func (l *listener) open(ctx context.Context, a *App) error {
	opened, err := web.Open(ctx, l.address, a.config.SocketMode)
	if err != nil {
		hint := "give " + l.setting + " an address of this machine and a free port"
		if _, isSocket := web.Path(l.address); isSocket {
			hint = "give " + l.setting + " a path in a folder where this user may write, and where nothing is"
		}
		fault := a.config.Fault(l.setting, fmt.Sprintf("cannot listen on %s: %s", l.address, err), hint)
		fault.Err = err
		return fault
	}
	l.log.Info("listening", "address", web.Address(opened))
	gate := a.gates.traffic
	if l.watches() {
		gate = a.gates.admin
	}
	l.net = gate.Doorway(l.setting, opened)
	a.metrics.Connections(l.setting, l.net.Open, l.net.Refused)
	return nil
}

// The last descriptors of a process are kept: listeners of traffic leave some for the
// others, and those leave some for files that are read and servers that are asked.
var (
	adminReserve = web.Reserve{Most: 128, Share: 4}
	filesReserve = web.Reserve{Most: 32, Share: 16}
)

// gates bound connections.
type gates struct{ traffic, admin *web.Gate }

// newGates returns the gates of a configuration.
func newGates(c *settings.Config, log *slog.Logger) gates {
	return gates{web.NewGate(c.MaxConnections, adminReserve, log), web.NewGate(0, filesReserve, log)}
}

// serve answers until the listener is drained. The error says that it cannot go on.
func (l *listener) serve() error {
	if err := l.server.Serve(web.Encrypt(l.net, l.tls)); err != nil {
		return fmt.Errorf("listener %s: %w", l.setting, err)
	}
	return nil
}
