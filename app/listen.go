package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"stint/app/settings"
	"stint/internal/web"
)

// idleTimeout is after which time without a request a connection is closed while the service stops.
const idleTimeout = 500 * time.Millisecond

// A listener is one address of the service.
type listener struct {
	setting string // "http", "admin" or another setting with an address
	address string
	server  answerer
	tls     *tls.Config        // encrypts HTTP; nil: not encrypted, or server does it
	net     *web.GatedListener // nil before open
	log     *slog.Logger
}

// An answerer is the server of a listener.
type answerer interface {
	// Serve accepts connections until Drain, and then returns nil. After an error it cannot
	// continue.
	Serve(net.Listener) error

	// Ready tells clients whether to send more calls, or that the end is near; calls are accepted
	// in any case. Drain does Ready(false) itself.
	Ready(bool)

	// Drain accepts nothing more and waits for the calls in flight until ctx is done; then it cuts
	// them and returns true. Connections whose clients learn of the end only by an answer stay open
	// for linger; those without a request are closed silent after that.
	Drain(ctx context.Context, linger, silent time.Duration) (cut bool)
}

// newListener returns a listener for an address. It does not open it.
func newListener(setting, address string, log *slog.Logger) *listener {
	return &listener{setting: setting, address: address, log: log.With("listener", setting)}
}

// inherited returns the socket with an address that is open already; nil if there is none.
func (a *App) inherited(address string) net.Listener {
	for _, given := range a.config.Listeners {
		if web.IsAt(given, address) {
			return web.Inherited(given)
		}
	}
	return nil
}

// unwanted returns an error if a socket that is open already has the address of no listener: its
// clients would wait for ever.
func (a *App) unwanted() error {
	for _, given := range a.config.Listeners {
		if !slices.ContainsFunc(a.listeners, func(l *listener) bool { return web.IsAt(given, l.address) }) {
			address := web.Address(given)
			return a.config.Fault("http", "the service manager passes a socket at "+address+", where no listener is",
				"give http, grpc, resp, admin or metrics the address "+address+", or remove it from the socket unit")
		}
	}
	return nil
}

// isMonitoring reports whether the listener is for monitoring, so that it closes last.
func (l *listener) isMonitoring() bool { return l.setting == "admin" || l.setting == "metrics" }

// open opens the address.
func (l *listener) open(ctx context.Context, a *App) error {
	opened, err := a.inherited(l.address), error(nil)
	if opened == nil {
		opened, err = web.Open(ctx, l.address, a.config.SocketMode)
	}
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
	if l.isMonitoring() {
		gate = a.gates.admin
	}
	l.net = gate.Wrap(l.setting, opened)
	a.metrics.Connections(l.setting, l.net.Open, l.net.Refused)
	return nil
}

// A process keeps its last file descriptors in reserve: traffic listeners leave some for the
// others, and those leave some for files and for connections to servers.
var (
	adminReserve = web.Reserve{Most: 128, Share: 4}
	filesReserve = web.Reserve{Most: 32, Share: 16}
)

// gates bound the number of connections.
type gates struct{ traffic, admin *web.Gate }

// newGates returns the gates of a configuration.
func newGates(c *settings.Config, log *slog.Logger) gates {
	return gates{web.NewGate(c.MaxConnections, adminReserve, log), web.NewGate(0, filesReserve, log)}
}

// serve accepts connections until the listener is drained. After an error it cannot continue.
func (l *listener) serve() error {
	if err := l.server.Serve(web.Encrypt(l.net, l.tls)); err != nil {
		return fmt.Errorf("listener %s: %w", l.setting, err)
	}
	return nil
}
