package members

import (
	"log"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport is memberlist's, but for connections: nobody waits for long to write to one. A node
// that stands still takes what its machine has room for, and nothing more.
type transport struct {
	*memberlist.NetTransport
	sending time.Duration // how long a connection may be written to
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// freePorts is how often a free port is looked for: one of TCP may be taken on UDP.
const freePorts = 10

// newTransport listens.
func (m *Members) newTransport(ip string, port int) (t *transport, err error) {
	o := &memberlist.NetTransportConfig{BindAddrs: []string{ip}, BindPort: port, Logger: log.New(&logs{m}, "", 0)}
	t = &transport{sending: m.sending}
	for range freePorts {
		t.NetTransport, err = memberlist.NewNetTransport(o)
		if err == nil || port != 0 || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return t, err
}

// DialTimeout connects.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	conn, err := t.NetTransport.DialTimeout(address, timeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(t.sending)); err != nil {
		_ = conn.Close() // nobody else knows it
		return nil, err
	}
	return conn, nil
}

// DialAddressTimeout connects to a node.
func (t *transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(to.Addr, timeout)
}
