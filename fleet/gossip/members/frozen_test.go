package members

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"stint/fleet/gossip"
)

// nobody is a node that hears nothing.
type nobody struct{}

func (nobody) ID() uint64        { return 1 }
func (nobody) AddPeer(uint64)    {}
func (nobody) RemovePeer(uint64) {}
func (nobody) Receive([]byte)    {}

// listen returns a port of this machine at which silence answers connections.
func listen(t *testing.T, silence func(net.Conn)) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go silence(conn)
		}
	}()
	return l.Addr().(*net.TCPAddr)
}

// A frozen node, which receives only what its machine buffers, does not block messages to it
// forever, nor the stop of the sender.
func TestFrozenPeer(t *testing.T) {
	m := New(Options{Addr: "127.0.0.1:0"})
	m.sendTimeout = 50 * time.Millisecond
	if err := m.Open(nobody{}); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	defer close(over)
	at := listen(t, func(conn net.Conn) {
		<-over // and reads nothing
		conn.Close()
	})
	p := &peer{node: &memberlist.Node{Name: "frozen", Addr: at.IP, Port: uint16(at.Port)}}
	m.peers[7] = p
	for range 2 {
		m.Send(gossip.Message{To: 7, Bytes: make([]byte, 64<<20), Bulk: true})
	}
	m.Close()
	if p.sending || p.bytes != 0 {
		t.Errorf("%d bytes wait", p.bytes)
	}
}

// Nodes that do not answer are waited for all at once.
func TestJoinTogether(t *testing.T) {
	var here atomic.Int32
	all := make(chan struct{})
	o := Options{Addr: "127.0.0.1:0"}
	for range 3 {
		at := listen(t, func(conn net.Conn) {
			defer conn.Close()
			if here.Add(1) == 3 {
				close(all)
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = io.Copy(io.Discard, conn) // until the other side gives it up
			}()
			select {
			case <-all:
			case <-gone:
				here.Add(-1)
			}
		})
		o.Join = append(o.Join, at.String())
	}
	m := New(o)
	if err := m.Open(nobody{}); err != nil {
		t.Fatal(err)
	}
	m.Close()
	select {
	case <-all:
	default:
		t.Error("they were asked one after the other")
	}
}
