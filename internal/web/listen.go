package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// unixPrefix is the prefix of the address of a Unix socket.
const unixPrefix = "unix:"

// Path returns the path of a Unix socket's address.
func Path(address string) (path string, isSocket bool) { return strings.CutPrefix(address, unixPrefix) }

// Address returns the address of a listener, in the form that Open accepts.
func Address(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return unixPrefix + l.Addr().String()
	}
	return l.Addr().String()
}

// Open listens on an address. mode is the mode of a Unix socket's file: who may write to the file
// may connect. Open replaces a file that a dead process left; if a process still answers, Open
// returns an error. The listener removes its file when it is closed, and the address of its clients
// is 127.0.0.1.
func Open(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	path, isSocket := Path(address)
	if !isSocket {
		return open(ctx, &net.ListenConfig{}, network(address), address)
	}
	if strings.HasPrefix(path, "@") { // an abstract name of Linux, without a file
		l, err := open(ctx, &net.ListenConfig{}, "unix", path)
		if err != nil {
			return nil, err
		}
		return &socket{Listener: l}, nil
	}
	return openSocket(ctx, path, mode)
}

// Inherited returns a listener that another process opened, as Open would have: the address of
// clients of a Unix socket is 127.0.0.1. Its file stays when it is closed.
func Inherited(l net.Listener) net.Listener {
	if l.Addr().Network() == "unix" {
		return &socket{Listener: l}
	}
	return l
}

// IsAt reports whether a listener has the address, in the form that Open accepts.
func IsAt(l net.Listener, address string) bool {
	if path, isSocket := Path(address); isSocket || l.Addr().Network() == "unix" {
		return isSocket && l.Addr().Network() == "unix" && l.Addr().String() == path
	}
	at, ok := l.Addr().(*net.TCPAddr)
	want, err := net.ResolveTCPAddr(network(address), address)
	if !ok || err != nil || at.Port != want.Port {
		return false
	}
	all := want.IP == nil || want.IP.IsUnspecified()
	return at.IP.Equal(want.IP) || all && at.IP.IsUnspecified()
}

func open(ctx context.Context, config *net.ListenConfig, network, address string) (net.Listener, error) {
	l, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, Cause(err)
	}
	return l, nil
}

// Cause returns a network error without the operation and the address, because callers add these
// themselves.
func Cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}

// network returns tcp4 for an IPv4 address. Otherwise 0.0.0.0 would mean all addresses, IPv6
// included.
func network(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			return "tcp4"
		}
	}
	return "tcp"
}

// openSocket listens on a Unix socket that is a file.
func openSocket(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// Linux creates the file with the mode of the socket, so nobody connects before Chmod.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { chmod(fd, uint32(mode)) })
	}}
	l, err := open(ctx, &config, "unix", path)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s := &socket{Listener: l, path: path}
	if err = os.Chmod(path, mode); err == nil {
		s.file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	return s, nil
}

// answerWithin is how long removeStale waits for a process to accept a connection.
const answerWithin = time.Second

// removeStale removes the file of a Unix socket whose process has ended.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return nil //nolint:nilerr // Listen reports the problem
	}
	conn, err := net.DialTimeout("unix", path, answerWithin)
	switch {
	case err == nil:
		conn.Close()
		return errors.New("another process answers there")
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	// The process is too busy to accept, or belongs to another user.
	return fmt.Errorf("another process may answer there: %w", Cause(err))
}

// socket is a Unix socket.
type socket struct {
	net.Listener
	path   string      // "": it has no file
	file   fs.FileInfo // the file at path when it was opened
	closed atomic.Bool
}

// Accept returns the next connection.
func (s *socket) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &local{c.(*net.UnixConn)}, nil
}

// Close closes the listener, and removes the file unless another process has replaced it.
func (s *socket) Close() error {
	if s.path != "" && !s.closed.Swap(true) {
		if there, err := os.Lstat(s.path); err == nil && os.SameFile(there, s.file) {
			// Remove the file first: after the socket is closed, a new process may have created its
			// own.
			if err := os.Remove(s.path); err != nil {
				return errors.Join(err, s.Listener.Close())
			}
		}
	}
	return s.Listener.Close()
}

// local is a connection from this machine, whose client has no address.
type local struct{ *net.UnixConn }

// RemoteAddr returns the address of this machine.
func (*local) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
