// Package members finds the other nodes of a fleet and carries messages between them. It alone
// uses hashicorp/memberlist.
package members

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"stint/fleet/gossip"
)

// Times that memberlist does not define.
const (
	joinAlone    = time.Second      // between attempts to join while this node is alone
	joinEvery    = 10 * time.Second // between attempts otherwise
	leaveTimeout = 500 * time.Millisecond
	dialTimeout  = 2 * time.Second  // timeout of a connection attempt
	sendTimeout  = 2 * time.Second  // timeout of a message on a connection
	aloneWarning = 10 * time.Second // time alone after which a warning is logged

	maxWaiting = 256 << 20 // bytes of long messages that may wait for one peer
)

// Options are the address of a node and how it finds the others.
type Options struct {
	// Addr is the address HOST:PORT to listen on, by UDP and TCP. Other nodes must be able to
	// reach it.
	Addr string

	// Join lists addresses HOST:PORT of some other nodes. A name may resolve to many addresses;
	// it is resolved again and again, so that new nodes are found. The address of this node may
	// be in the list.
	Join []string

	// Key encrypts all messages and keeps out nodes without it: 16, 24 or 32 bytes, see ReadKey.
	// Nil: no encryption; anyone who reaches Addr can send counts.
	Key []byte

	// Label separates fleets that can reach each other. Nodes with another label are refused.
	Label string

	// Alone is how long after Open this node may have found no other one before Alone reports it;
	// 0: it is never reported.
	Alone time.Duration

	// OnAlone is called when the result of Alone has changed. It must return soon, and may call
	// only Alone. It may be nil.
	OnAlone func(alone bool)

	// Log receives warnings and events; nil: nothing is logged.
	Log *slog.Logger
}

// Members are the other nodes that can be reached. They implement [gossip.Peers] and are safe for
// concurrent use.
//
// A message that fits into a packet is sent by UDP. A longer one is sent over a connection of its
// own, in the background. Memberlist probes one other node a second. It notices that a node is
// gone after about 5 seconds, later with many nodes. Nodes that were lost in a network partition
// are looked up in Options.Join every 10 seconds.
type Members struct {
	o           Options
	list        *memberlist.Memberlist
	to          gossip.Receiver
	refused     atomic.Uint64
	sendTimeout time.Duration // timeout of a message; shorter in tests
	joinAlone   time.Duration // between attempts to join while this node is alone; shorter in tests
	alone       atomic.Bool   // see Alone

	mu      sync.RWMutex // guards the fields below
	peers   map[uint64]*peer
	closed  bool
	senders sync.WaitGroup // senders of long messages
	expects bool           // Options.Join names other nodes, or names that cannot be resolved
	met     bool           // another node was found since Open
	parted  time.Time      // when the last other node was there, or the time of Open
	judged  bool           // Options.Alone is over
	logged  bool           // a warning was logged since parted

	logging sync.Mutex      // guards hosts
	hosts   map[string]bool // hosts whose refusal was logged
}

var _ gossip.Peers = (*Members)(nil)

// peer is a node that can be reached.
type peer struct {
	node *memberlist.Node

	mu      sync.Mutex // guards the fields below
	waiting [][]byte   // long messages, oldest first
	bytes   int        // sum of waiting
	sending bool       // a goroutine is sending them
}

// New returns members. Open starts them.
func New(o Options) *Members {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Members{o: o, sendTimeout: sendTimeout, joinAlone: joinAlone, peers: make(map[uint64]*peer), hosts: make(map[string]bool)}
}

// Open implements [gossip.Peers].
func (m *Members) Open(to gossip.Receiver) error {
	host, service, err := net.SplitHostPort(m.o.Addr)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return fmt.Errorf("port %q: %w", service, err)
	}
	ip := "0.0.0.0"
	if host != "" {
		address, err := net.ResolveIPAddr("ip", host)
		if err != nil {
			return err
		}
		ip = address.String()
	}
	m.to = to
	t, err := m.newTransport(ip, int(number))
	if err != nil {
		return err
	}
	port := t.GetAutoBindPort()
	c := memberlist.DefaultLANConfig()
	c.Name = nameOf(to.ID())
	c.Transport, c.BindAddr, c.BindPort, c.AdvertisePort = t, ip, port, port
	c.SecretKey = m.o.Key
	c.Label = m.o.Label
	c.EnableCompression = false
	c.TCPTimeout = dialTimeout
	c.Delegate, c.Events = delegate{m}, delegate{m}
	c.LogOutput = &logs{m}
	list, err := memberlist.Create(c)
	if err != nil {
		_ = t.Shutdown() // nothing else closes it
		return err
	}
	m.mu.Lock()
	m.list, m.parted = list, time.Now()
	m.mu.Unlock()
	m.join(context.Background())
	return nil
}

// Addr returns the address at which other nodes reach this one.
func (m *Members) Addr() string { return m.list.LocalNode().Address() }

// Refused returns how many messages without the key were refused.
func (m *Members) Refused() uint64 { return m.refused.Load() }

// nameOf returns the name of a node in memberlist.
func nameOf(id uint64) string { return strconv.FormatUint(id, 16) }

// Send implements [gossip.Peers].
func (m *Members) Send(msg gossip.Message) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.list == nil || m.closed {
		return
	}
	if msg.To != 0 {
		if p := m.peers[msg.To]; p != nil {
			m.sendLocked(p, &msg)
		}
		return
	}
	for _, p := range m.peers {
		m.sendLocked(p, &msg)
	}
}

// sendLocked sends a message to a peer. If it fails, the message is lost, and the peer requests
// its content later.
func (m *Members) sendLocked(p *peer, msg *gossip.Message) {
	if !msg.Bulk {
		if err := m.list.SendBestEffort(p.node, msg.Bytes); err != nil {
			m.o.Log.Debug("gossip: could not send a message", "node", p.node.Address(), "error", err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes+len(msg.Bytes) > maxWaiting {
		return // the peer is too slow
	}
	p.waiting, p.bytes = append(p.waiting, msg.Bytes), p.bytes+len(msg.Bytes)
	if !p.sending {
		p.sending = true
		m.senders.Go(func() { m.deliver(p) })
	}
}

// deliver sends the long messages of a peer one after the other until none waits. If one fails,
// it drops the rest.
func (m *Members) deliver(p *peer) {
	for {
		p.mu.Lock()
		if p.sending = len(p.waiting) > 0; !p.sending {
			p.mu.Unlock()
			return
		}
		bytes := p.waiting[0]
		p.waiting, p.bytes = p.waiting[1:], p.bytes-len(bytes)
		p.mu.Unlock()
		err := m.list.SendReliable(p.node, bytes)
		if err == nil {
			continue
		}
		m.o.Log.Debug("gossip: could not send a message", "node", p.node.Address(), "error", err)
		p.mu.Lock()
		p.waiting, p.bytes = nil, 0
		p.mu.Unlock()
	}
}

// Foreign implements [gossip.Peers]: it logs that a peer is of another release.
func (m *Members) Foreign(id uint64) {
	m.mu.RLock()
	p := m.peers[id]
	m.mu.RUnlock()
	if p == nil {
		return // it left meanwhile
	}
	m.o.Log.Warn("gossip: a node runs another release; some of its messages are dropped", "node", p.node.Address(),
		"hint", "run one release on all nodes; until then a node that starts counts only what is reported after its start")
}

// Run looks for other nodes until ctx is done.
func (m *Members) Run(ctx context.Context) {
	soon := time.NewTicker(m.joinAlone)
	defer soon.Stop()
	last := time.Now()
	for {
		select {
		case <-soon.C:
		case <-ctx.Done():
			return
		}
		m.mu.RLock()
		alone := len(m.peers) == 0
		m.mu.RUnlock()
		if alone || time.Since(last) >= joinEvery {
			m.join(ctx)
			last = time.Now()
		}
		m.watchAlone(time.Now())
	}
}

// join tries to join those nodes of Options.Join that are not members yet.
func (m *Members) join(ctx context.Context) {
	known := map[string]bool{m.Addr(): true}
	m.mu.RLock()
	for _, p := range m.peers {
		known[p.node.Address()] = true
	}
	m.mu.RUnlock()
	var strangers []string
	found, all := m.lookup(ctx)
	expects := !all
	for _, address := range found {
		if !known[address] {
			known[address] = true
			strangers = append(strangers, address)
			expects = expects || !m.isOwn(address)
		}
	}
	m.mu.Lock()
	m.expects = expects
	m.mu.Unlock()
	var joins sync.WaitGroup
	defer joins.Wait()
	free := make(chan struct{}, maxJoins)
	for _, address := range strangers {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		joins.Go(func() {
			if _, err := m.list.Join([]string{address}); err != nil {
				m.o.Log.Debug("gossip: could not join a node", "error", err)
			}
			<-free
		})
	}
}

// maxJoins is the number of nodes that this one tries to join at the same time. A node that does
// not answer so delays few others.
const maxJoins = 16

// lookup resolves the addresses of Options.Join, and reports whether all could be resolved.
func (m *Members) lookup(ctx context.Context) (found []string, all bool) {
	all = true
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for _, one := range m.o.Join {
		host, port, err := net.SplitHostPort(one)
		if err != nil {
			continue
		}
		hosts, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			all = false
			m.o.Log.Debug("gossip: could not resolve a name", "name", host, "error", err)
			continue
		}
		for _, ip := range hosts {
			found = append(found, net.JoinHostPort(ip, port))
		}
	}
	return found, all
}

// Close implements [gossip.Peers].
func (m *Members) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.senders.Wait()
	if err := m.list.Leave(leaveTimeout); err != nil {
		m.o.Log.Debug("gossip: could not send that this node leaves", "error", err)
	}
	if err := m.list.Shutdown(); err != nil {
		m.o.Log.Debug("gossip: could not stop", "error", err)
	}
}
