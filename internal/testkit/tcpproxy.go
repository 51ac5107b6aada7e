package testkit

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// ProxyOptions define how the proxy forwards bytes. The zero value forwards them at once.
type ProxyOptions struct {
	// Delay is added to each byte, in each direction: half a round trip.
	Delay time.Duration

	// Jitter is the most that is added to Delay, at random for each read. Bytes of one connection
	// stay in order, so a long delay also delays the bytes after it.
	Jitter time.Duration

	// Rate is how many bytes a second each connection carries in each direction. 0 is no limit.
	Rate int

	// Bytewise forwards one byte a write, so that every message arrives in pieces.
	Bytewise bool
}

// TCPProxy forwards connections to one server. It is safe for concurrent use and ends with
// the test that started it.
type TCPProxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	options ProxyOptions
	stalled chan struct{} // closed when a stall ends; nil while there is none
	conns   map[net.Conn]bool
	closed  bool
}

// StartProxy starts a proxy for the server at target (HOST:PORT) on a free loopback port.
func StartProxy(t testing.TB, target string, options ProxyOptions) *TCPProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	p := &TCPProxy{target: target, listener: listener, options: options, conns: make(map[net.Conn]bool)}
	p.running.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

// Addr returns the address of the proxy, HOST:PORT.
func (p *TCPProxy) Addr() string { return p.listener.Addr().String() }

// Set changes the options for all bytes that arrive from now on.
func (p *TCPProxy) Set(options ProxyOptions) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options = options
}

// Stall holds back everything in both directions until Resume. Connections stay open, and
// nothing is lost.
func (p *TCPProxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// Resume ends a stall.
func (p *TCPProxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// Cut closes all connections. Bytes that are held back are lost. New connections are
// accepted.
func (p *TCPProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

// stop closes the listener and all connections, and waits for the goroutines.
func (p *TCPProxy) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Resume()
	p.Cut()
	p.running.Wait()
}

func (p *TCPProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.connect(client) })
	}
}

// connect forwards one connection until either end closes it.
func (p *TCPProxy) connect(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.add(client, server) {
		return
	}
	defer p.remove(client, server)
	var both sync.WaitGroup
	both.Go(func() { p.forward(client, server) })
	both.Go(func() { p.forward(server, client) })
	both.Wait()
}

func (p *TCPProxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = true
	}
	return !p.closed
}

func (p *TCPProxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.conns, conn)
	}
}

// chunk is what one read returned, and when it is due at the other end.
type chunk struct {
	bytes []byte
	due   time.Time
}

// held is how many chunks of one direction the proxy buffers. After that the sender waits, as with
// a full socket.
const held = 4096

// forward copies one direction, and closes both ends afterwards.
func (p *TCPProxy) forward(from, to net.Conn) {
	chunks := make(chan chunk, held)
	var writer sync.WaitGroup
	writer.Go(func() {
		p.write(to, chunks)
		from.Close() // unblocks a reader
		for range chunks {
			continue // unblocks a reader that waits for the channel too
		}
	})
	last := time.Time{}
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			last = p.due(time.Now(), last, n)
			chunks <- chunk{buffer[:n], last}
		}
		if err != nil {
			break
		}
	}
	close(chunks)
	writer.Wait()
	to.Close()
}

// due returns when n bytes that arrive now are forwarded: not before those ahead of them.
func (p *TCPProxy) due(now, ahead time.Time, n int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	delay := p.options.Delay
	if p.options.Jitter > 0 {
		delay += rand.N(p.options.Jitter + 1)
	}
	due := now.Add(delay)
	if ahead.After(due) {
		due = ahead
	}
	if p.options.Rate > 0 {
		due = due.Add(time.Duration(n) * time.Second / time.Duration(p.options.Rate))
	}
	return due
}

// write writes chunks when they are due.
func (p *TCPProxy) write(to net.Conn, chunks <-chan chunk) {
	for c := range chunks {
		Pause(time.Until(c.due))
		bytewise := p.wait()
		for step := len(c.bytes); len(c.bytes) > 0; c.bytes = c.bytes[step:] {
			if bytewise {
				step = 1
			}
			if _, err := to.Write(c.bytes[:step]); err != nil {
				return
			}
		}
	}
}

// wait waits while a stall is on, and reports whether to write bytes one by one.
func (p *TCPProxy) wait() (bytewise bool) {
	for {
		p.mu.Lock()
		stalled := p.stalled
		bytewise = p.options.Bytewise
		p.mu.Unlock()
		if stalled == nil {
			return bytewise
		}
		<-stalled
	}
}
