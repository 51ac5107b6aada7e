package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"stint/server/httpapi"
)

// silence is how long connections that have sent nothing are kept while the service
// stops.
const silence = 500 * time.Millisecond

// A listener is one address that is served.
type listener struct {
	setting string // "http" or "admin"
	address string
	server  *http.Server
	net     net.Listener
	log     *slog.Logger

	mu    sync.Mutex
	fresh map[net.Conn]struct{} // connections that have sent nothing so far
}

// newListener returns a listener that is to take an address.
func newListener(setting, address string, log *slog.Logger) *listener {
	return &listener{setting: setting, address: address, log: log.With("listener", setting), fresh: make(map[net.Conn]struct{})}
}

// answer sets what answers calls, and the bounds on what a client may hold on to.
func (l *listener) answer(handler http.Handler, limits httpapi.Limits) {
	l.server = httpapi.NewServer(handler, limits)
	l.server.ConnState = l.track
	l.server.ErrorLog = slog.NewLogLogger(l.log.Handler(), slog.LevelDebug)
}

// track keeps the connections that have sent nothing: http.Server would wait five
// seconds for them when it stops.
func (l *listener) track(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == http.StateNew {
		l.fresh[c] = struct{}{}
	} else {
		delete(l.fresh, c)
	}
}

// open takes the address.
func (l *listener) open(ctx context.Context, c *Config) error {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, network(l.address), l.address)
	if err != nil {
		hint := "give " + l.setting + " an address of this machine and a free port"
		fault := c.at(l.setting, fmt.Sprintf("cannot listen on %s: %s", l.address, listenCause(err)), hint)
		fault.Err = err
		return fault
	}
	l.net = ln
	l.log.Info("listening", "address", ln.Addr().String())
	return nil
}

// network returns tcp4 for an IPv4 address: 0.0.0.0 would otherwise be taken for all
// addresses, those of IPv6 among them.
func network(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			return "tcp4"
		}
	}
	return "tcp"
}

// listenCause is an error of the network without the operation and the address.
func listenCause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// serve answers until the listener is closed. The error says that it cannot go on.
func (l *listener) serve() error {
	if err := l.server.Serve(l.net); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listener %s: %w", l.setting, err)
	}
	return nil
}

// drain accepts nothing more and waits for the calls in flight until ctx is done;
// then it cuts them. Connections that have sent nothing are closed at silent.
func (l *listener) drain(ctx context.Context, silent time.Time) {
	timer := time.AfterFunc(time.Until(silent), l.closeFresh)
	defer timer.Stop()
	if err := l.server.Shutdown(ctx); err != nil {
		l.log.Warn("calls in flight were cut", "error", err)
		// It reports what Shutdown has reported.
		_ = l.server.Close()
	}
}

func (l *listener) closeFresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.fresh {
		c.Close()
	}
}
