package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// silence is how long connections that have sent nothing are kept while the service
// stops.
const silence = 500 * time.Millisecond

// A listener is one address that is served.
type listener struct {
	setting string // "http", "admin" or another that has an address
	address string
	server  answerer
	net     net.Listener
	log     *slog.Logger
}

// An answerer answers what a listener accepts.
type answerer interface {
	// Serve answers until Drain, and then returns nil. An error says that it cannot go on.
	Serve(net.Listener) error

	// Ready tells callers that more calls are welcome, or that the end is near while
	// calls are still accepted.
	Ready(bool)

	// Drain accepts nothing more and waits for the calls in flight until ctx is done; then
	// it cuts them and says so. Connections that have sent nothing are closed at silent.
	Drain(ctx context.Context, silent time.Time) (cut bool)
}

// newListener returns a listener that is to take an address.
func newListener(setting, address string, log *slog.Logger) *listener {
	return &listener{setting: setting, address: address, log: log.With("listener", setting)}
}

// watches says whether the listener is for people and monitoring, and so closes last.
func (l *listener) watches() bool { return l.setting == "admin" || l.setting == "metrics" }

// open takes the address.
func (l *listener) open(ctx context.Context, c *Config) error {
	var config net.ListenConfig
	kind, address := network(l.address)
	err := removeStale(kind, address)
	if err == nil {
		l.net, err = config.Listen(ctx, kind, address)
	}
	if err != nil {
		hint := "give " + l.setting + " an address of this machine and a free port"
		if kind == "unix" {
			hint = "give " + l.setting + " a path in a folder where this user may write, and where nothing is"
		}
		fault := c.at(l.setting, fmt.Sprintf("cannot listen on %s: %s", l.address, listenCause(err)), hint)
		fault.Err = err
		return fault
	}
	l.log.Info("listening", "address", l.addr())
	return nil
}

// addr returns where calls are accepted, in the form in which addresses are given.
func (l *listener) addr() string {
	if l.net.Addr().Network() == "unix" {
		return unixPrefix + l.net.Addr().String()
	}
	return l.net.Addr().String()
}

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// network returns what kind of network an address is in, and the address there: tcp4
// for an IPv4 address, as 0.0.0.0 would otherwise be taken for all addresses, those of
// IPv6 among them.
func network(address string) (kind, there string) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		return "unix", path
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			return "tcp4", address
		}
	}
	return "tcp", address
}

// removeStale removes a Unix socket that a process left behind which is gone. One that
// somebody still answers stays, and is an error.
func removeStale(kind, path string) error {
	if kind != "unix" {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return nil //nolint:nilerr // what is wrong with it says who listens there
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return errors.New("another process answers there")
	}
	return os.Remove(path)
}

// listenCause is an error of the network without the operation and the address.
func listenCause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// serve answers until the listener is drained. The error says that it cannot go on.
func (l *listener) serve() error {
	if err := l.server.Serve(l.net); err != nil {
		return fmt.Errorf("listener %s: %w", l.setting, err)
	}
	return nil
}

// drain ends the listener as answerer.Drain does.
func (l *listener) drain(ctx context.Context, silent time.Time) {
	if l.server.Drain(ctx, silent) {
		l.log.Warn("calls in flight were cut")
	}
}
