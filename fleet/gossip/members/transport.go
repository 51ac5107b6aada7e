package members

import (
	"log"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// transport is memberlist's transport with a write timeout on connections. Without it, a node
// that stands still would block those that send to it once its buffers are full.
type transport struct {
	*memberlist.NetTransport
	sendTimeout time.Duration // timeout of all writes on a connection
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// freePorts is how many ports are tried when the system chooses one: a port free for TCP may be
// in use for UDP.
const freePorts = 10

// newTransport listens on an address.
func (m *Members) newTransport(ip string, port int) (t *transport, err error) {
	o := &memberlist.NetTransportConfig{BindAddrs: []string{ip}, BindPort: port, Logger: log.New(&logs{m}, "", 0)}
	t = &transport{sendTimeout: m.sendTimeout}
	for range freePorts {
		t.NetTransport, err = memberlist.NewNetTransport(o)
		if err == nil || port != 0 || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return t, err
}

// DialTimeout connects to an address.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	conn, err := t.NetTransport.DialTimeout(address, timeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(t.sendTimeout)); err != nil {
		_ = conn.Close() // nothing else closes it
		return nil, err
	}
	return conn, nil
}

// DialAddressTimeout connects to a node.
func (t *transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(to.Addr, timeout)
}
