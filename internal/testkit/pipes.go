package testkit

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Pipes is a listener in memory, for tests in fake time. Its connections hold nothing that the other side has not
// read. It is safe for concurrent use.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipes returns a listener without connections.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections stay open.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }

// DialContext returns a connection that Accept has returned the other side of, or an error if the listener is closed.
// It ignores its arguments, which http.Transport gives it.
func (p *Pipes) DialContext(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Dial is DialContext for a test, which fails on an error.
func (p *Pipes) Dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := p.DialContext(t.Context(), "", "")
	Must(t, err)
	return conn
}
