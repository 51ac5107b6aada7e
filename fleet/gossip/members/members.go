// Package members finds the other nodes of a fleet and carries messages between them, over
// hashicorp/memberlist, which only this package knows.
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

// Timing of what memberlist does not say.
const (
	joinSoon  = time.Second      // tries to join while nobody is there
	joinEvery = 10 * time.Second // and when somebody is
	leaving   = 500 * time.Millisecond
	dialing   = 2 * time.Second  // how long a connection may take
	sending   = 2 * time.Second  // and how long a message on it
	lonely    = 10 * time.Second // without others until that is logged

	maxWaiting = 256 << 20 // bytes of long messages that wait for one peer
)

// Options say where a node is and how it finds the others.
type Options struct {
	// Addr is where to listen, HOST:PORT, on UDP and TCP. Others must reach this node there.
	Addr string

	// Join are addresses HOST:PORT of others, any of them. A name may stand for many
	// addresses, and is looked up again and again, so that nodes that come later are found.
	// This node's own address may be among them.
	Join []string

	// Key encrypts all messages, and keeps out whoever does not have it: 16, 24 or 32 bytes,
	// see ReadKey. Nil: none, so that whoever reaches Addr can say what he likes.
	Key []byte

	// Label sets fleets apart that can reach each other: nodes with another one are refused.
	Label string

	// Log is told what matters; nil: nobody.
	Log *slog.Logger
}

// Members are the other nodes that can be reached. They are [gossip.Peers], safe for
// concurrent use.
//
// A message that fits into a packet goes as one, by UDP; a longer one by a connection of its
// own, in the background. Memberlist looks at one other node a second: one that is gone is
// known to be after about 5 seconds, more with many nodes. Nodes that were lost, as a network
// fell apart, are looked for among Options.Join every 10 seconds.
type Members struct {
	o       Options
	list    *memberlist.Memberlist
	to      gossip.Receiver
	refused atomic.Uint64
	sending time.Duration // see there

	mu   sync.RWMutex // guards what follows
	here map[uint64]*peer
	over bool
	all  sync.WaitGroup // long messages on their way

	logging sync.Mutex      // guards told
	told    map[string]bool // whose refusal was logged
}

var _ gossip.Peers = (*Members)(nil)

// peer is a node that can be reached.
type peer struct {
	node *memberlist.Node

	mu      sync.Mutex // guards what follows
	waiting [][]byte   // long messages, in their order
	bytes   int        // of these
	sending bool       // somebody sends them
}

// New returns members that are not looked for yet.
func New(o Options) *Members {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Members{o: o, sending: sending, here: make(map[uint64]*peer), told: make(map[string]bool)}
}

// Open listens, see gossip.Peers.
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
	c.TCPTimeout = dialing
	c.Delegate, c.Events = delegate{m}, delegate{m}
	c.LogOutput = &logs{m}
	list, err := memberlist.Create(c)
	if err != nil {
		_ = t.Shutdown() // nobody else knows it
		return err
	}
	m.mu.Lock()
	m.list = list
	m.mu.Unlock()
	m.join(context.Background())
	return nil
}

// Addr returns where this node is reached.
func (m *Members) Addr() string { return m.list.LocalNode().Address() }

// Refused returns how often somebody without the key was refused.
func (m *Members) Refused() uint64 { return m.refused.Load() }

// nameOf returns the name by which a node is known.
func nameOf(id uint64) string { return strconv.FormatUint(id, 16) }

// Send sends a message, see gossip.Peers.
func (m *Members) Send(msg gossip.Message) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.list == nil || m.over {
		return
	}
	if msg.To != 0 {
		if p := m.here[msg.To]; p != nil {
			m.sendLocked(p, &msg)
		}
		return
	}
	for _, p := range m.here {
		m.sendLocked(p, &msg)
	}
}

// sendLocked sends a message to a peer. What cannot be sent is lost: it is asked for later.
func (m *Members) sendLocked(p *peer, msg *gossip.Message) {
	if !msg.Bulk {
		if err := m.list.SendBestEffort(p.node, msg.Bytes); err != nil {
			m.o.Log.Debug("gossip: a message was not sent", "node", p.node.Address(), "error", err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes+len(msg.Bytes) > maxWaiting {
		return // it is too slow
	}
	p.waiting, p.bytes = append(p.waiting, msg.Bytes), p.bytes+len(msg.Bytes)
	if !p.sending {
		p.sending = true
		m.all.Go(func() { m.deliver(p) })
	}
}

// deliver sends long messages to a peer one after the other, until none waits. Where one
// cannot be sent the others are lost too.
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
		m.o.Log.Debug("gossip: a message was not sent", "node", p.node.Address(), "error", err)
		p.mu.Lock()
		p.waiting, p.bytes = nil, 0
		p.mu.Unlock()
	}
}

// Foreign logs that a peer is of another release, see gossip.Peers.
func (m *Members) Foreign(id uint64) {
	m.mu.RLock()
	p := m.here[id]
	m.mu.RUnlock()
	if p == nil {
		return // gone already
	}
	m.o.Log.Warn("gossip: a node has another release; some of its messages are dropped", "node", p.node.Address(),
		"hint", "bring all nodes to one release; until then one that starts begins with what it is told from then on")
}

// Run looks for others until ctx is done.
func (m *Members) Run(ctx context.Context) {
	soon := time.NewTicker(joinSoon)
	defer soon.Stop()
	last, began, logged := time.Now(), time.Now(), false
	for {
		select {
		case <-soon.C:
		case <-ctx.Done():
			return
		}
		m.mu.RLock()
		alone := len(m.here) == 0
		m.mu.RUnlock()
		if alone && !logged && len(m.o.Join) > 0 && time.Since(began) >= lonely {
			logged = true
			m.o.Log.Warn("gossip: no other node was found; this node counts alone", "join", m.o.Join,
				"hint", "check --gossip-join, and that UDP and TCP reach the others' --gossip; it goes on trying")
		}
		if !alone {
			began, logged = time.Now(), false
		}
		if alone || time.Since(last) >= joinEvery {
			m.join(ctx)
			last = time.Now()
		}
	}
}

// join asks those of Options.Join who are no members yet to be.
func (m *Members) join(ctx context.Context) {
	known := map[string]bool{m.Addr(): true}
	m.mu.RLock()
	for _, p := range m.here {
		known[p.node.Address()] = true
	}
	m.mu.RUnlock()
	var strangers []string
	for _, address := range m.lookup(ctx) {
		if !known[address] {
			known[address] = true
			strangers = append(strangers, address)
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	free := make(chan struct{}, joining)
	for _, address := range strangers {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		all.Go(func() {
			if _, err := m.list.Join([]string{address}); err != nil {
				m.o.Log.Debug("gossip: a node could not be joined", "error", err)
			}
			<-free
		})
	}
}

// joining is how many nodes are asked at a time to be members: one that does not answer keeps
// nobody waiting for the others.
const joining = 16

// lookup returns the addresses that Options.Join stand for now.
func (m *Members) lookup(ctx context.Context) (all []string) {
	ctx, cancel := context.WithTimeout(ctx, dialing)
	defer cancel()
	for _, one := range m.o.Join {
		host, port, err := net.SplitHostPort(one)
		if err != nil {
			continue
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			m.o.Log.Debug("gossip: a name was not found", "name", host, "error", err)
			continue
		}
		for _, ip := range found {
			all = append(all, net.JoinHostPort(ip, port))
		}
	}
	return all
}

// Close leaves the others, see gossip.Peers.
func (m *Members) Close() {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	m.all.Wait()
	if err := m.list.Leave(leaving); err != nil {
		m.o.Log.Debug("gossip: could not send that this node leaves", "error", err)
	}
	if err := m.list.Shutdown(); err != nil {
		m.o.Log.Debug("gossip: could not stop", "error", err)
	}
}
