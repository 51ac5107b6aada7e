package gossip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/fleet/gossip/wire"
	"stint/internal/system"
)

// Peers carry messages between nodes. Package fleet/gossip/members implements them on a network.
type Peers interface {
	// Open starts to tell the receiver which nodes it can reach, and to pass their messages on to
	// it. It may call the receiver before it returns.
	Open(to Receiver) error

	// Send sends a message. It does not wait for the delivery, which may never happen.
	Send(m Message)

	// Foreign is called once for each peer that sends messages in the format of another release.
	// Such a peer and this node do not understand each other's messages of some kinds. Foreign
	// must return soon.
	Foreign(peer uint64)

	// Run looks for other nodes until ctx is done.
	Run(ctx context.Context)

	// Close announces to the other nodes that this one leaves, and stops.
	Close()
}

// Receiver is a node as Peers see it. A Store is a Receiver.
type Receiver interface {
	// ID returns the number of the node.
	ID() uint64
	// AddPeer adds a node that can be reached.
	AddPeer(peer uint64)
	// RemovePeer removes a node that cannot be reached any more.
	RemovePeer(peer uint64)
	// Receive handles a message. It returns soon and does not keep the bytes.
	Receive(message []byte)
}

// StoreOptions are the optional parts of a Store. The zero value is ready to use.
type StoreOptions struct {
	Options

	// Around wraps the store that asks all peers before it decides (see [stint.Terms].AskPeers),
	// for example in a guard with a deadline. Nil: a take waits as long as the context of its
	// caller.
	Around func(stint.Store) stint.Store

	// Alone reports whether this process lacks the counts of the others. The policies of Around then
	// decide takes that ask or force. Nil: it never does.
	Alone func() bool

	// Base is the store of the other modes. It is debited and read when rules change from and to
	// gossip, see Change. Nil: keys of such rules begin unused.
	Base stint.Store
}

// Store is a [stint.Store] that decides from the counts of this process and those that other
// nodes sent. The comment of the package says what it promises. It is safe for concurrent use.
// The zero Store is not usable, see New.
//
// Call Start, then Run until the end. Before Start, and without peers, a store counts alone. A
// decision sends no message, does not wait and allocates nothing. Takes with AskPeers wait for
// the replies of all peers that can be reached. If one does not reply in time, Decide returns an
// error and charges nothing.
//
// All state is in memory. A node that starts gets it from the others. If all nodes stop at once,
// it is lost.
type Store struct {
	node    *Node
	peers   Peers
	asking  stint.Store
	alone   func() bool
	base    stint.Store
	clock   system.Clock
	repairs chan []byte
	first   sync.Once     // closes used
	used    chan struct{} // closed once a call was decided
	rules   atomic.Pointer[ruleSet]
	rulesMu sync.RWMutex // write-locked while the rules change
}

var (
	_ stint.Store = (*Store)(nil)
	_ Receiver    = (*Store)(nil)
)

// New returns a store. Nil peers: it always counts alone.
func New(peers Peers, o StoreOptions) *Store {
	s := &Store{node: NewNode(o.Options), peers: peers, base: o.Base, alone: o.Alone, repairs: make(chan []byte, 64), used: make(chan struct{})}
	s.clock.Start(time.Now())
	if peers != nil {
		s.node.foreign = peers.Foreign
	}
	s.asking = asking{s}
	if o.Around != nil {
		s.asking = o.Around(s.asking)
	}
	return s
}

// Decide implements [stint.Store].
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	s.readBase(ctx, call)
	lacksCounts := s.lacksCounts()
	for i := range call.Takes {
		if t := &call.Takes[i]; asksPeers(t) || lacksCounts && isNew(t) || undoesPolicy(t) {
			return s.asking.Decide(ctx, call)
		}
	}
	return s.decide(call)
}

// lacksCounts reports whether this process lacks the counts of the others.
func (s *Store) lacksCounts() bool { return s.alone != nil && s.alone() }

// isNew reports whether a take is one that policies decide, and undoes nothing.
func isNew(t *stint.Take) bool { return t.Op.Asks() || t.Op == stint.Force }

// undoesPolicy reports whether a take undoes a decision of a policy.
func undoesPolicy(t *stint.Take) bool { return t.Undo != nil && t.Undo.Degraded }

// decide decides a call from the counts of this node. It waits while the rules change.
func (s *Store) decide(call *stint.Call) error {
	s.first.Do(s.use)
	s.rulesMu.RLock()
	defer s.rulesMu.RUnlock()
	return s.node.Decide(call, s.clock.Now())
}

// use begins the use of the store. Alone, nothing has set its clock until now.
func (s *Store) use() {
	if s.peers == nil {
		s.clock.Follow()
	}
	close(s.used)
}

// asking is a store that asks all peers before it decides.
type asking struct{ *Store }

// Errors of takes that the policies of StoreOptions.Around decide.
var (
	errNoReply = errors.New("gossip: not all peers answered")
	errAlone   = errors.New("gossip: found no other node since the start")
)

// Decide decides the call after all peers have replied with their counts, if its rules ask them. It
// returns an error if this process lacks their counts.
func (a asking) Decide(ctx context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	if a.lacksCounts() && slices.ContainsFunc(call.Takes, func(t stint.Take) bool { return isNew(&t) }) {
		return errAlone
	}
	q, list := a.node.StartQuery(call, a.clock.Now())
	if q != nil {
		a.send(list)
		select {
		case <-q.Done():
		case <-ctx.Done():
		}
		if !a.node.EndQuery(q) {
			return fmt.Errorf("%w: %w", errNoReply, ctx.Err())
		}
	}
	return a.decide(call)
}

// Start starts to look for peers. Call WaitSynced to wait for their counts.
func (s *Store) Start() error {
	if s.peers == nil {
		return nil
	}
	return s.peers.Open(s)
}

// WaitSynced waits, between Start and Run, until a peer has sent all its counts, if there is a
// peer. It returns false if ctx ends before.
func (s *Store) WaitSynced(ctx context.Context) bool {
	const looks = 5 * time.Millisecond
	look := time.NewTicker(looks)
	defer look.Stop()
	for wait := time.Duration(0); ; wait -= looks {
		if s.node.Synced() {
			return true
		}
		if wait <= 0 { // send requests, and repeat them
			s.send(s.node.Tick(s.clock.Now()))
			wait = s.node.Interval()
		}
		select {
		case <-look.C:
		case message := <-s.repairs: // from nodes that also just started
			s.send(s.node.Receive(message, s.clock.Now()))
		case <-ctx.Done():
			return false
		}
	}
}

// Run sends reports to the peers until ctx is done. Then it sends the last one and leaves.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(s.node.Interval())
	defer tick.Stop()
	if s.peers == nil {
		s.runAlone(ctx, tick)
		return
	}
	looking := make(chan struct{})
	go func() {
		defer close(looking)
		s.peers.Run(ctx)
	}()
	for {
		select {
		case <-tick.C:
			s.clock.Follow()
			s.send(s.node.Tick(s.clock.Now()))
		case message := <-s.repairs:
			s.send(s.node.Receive(message, s.clock.Now()))
		case <-ctx.Done():
			s.send(s.node.Last(s.clock.Now())) // at once, because the wait below may be long
			<-looking
			s.send(s.node.Last(s.clock.Now()))
			s.peers.Close()
			return
		}
	}
}

// runAlone removes keys that are untouched, once there can be any: the ticks of a store that nobody uses
// would only wake the process.
func (s *Store) runAlone(ctx context.Context, tick *time.Ticker) {
	select {
	case <-s.used:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case <-tick.C:
			s.clock.Follow()
			s.node.Tick(s.clock.Now())
		case <-ctx.Done():
			return
		}
	}
}

func (s *Store) send(list []Message) {
	if s.peers == nil {
		return
	}
	for _, m := range list {
		s.peers.Send(m)
	}
}

// ID returns the number of the node. It is another one after each start.
func (s *Store) ID() uint64 { return s.node.ID() }

// AddPeer adds a node that can be reached.
func (s *Store) AddPeer(peer uint64) { s.node.AddPeer(peer) }

// RemovePeer removes a node that cannot be reached any more.
func (s *Store) RemovePeer(peer uint64) { s.node.RemovePeer(peer) }

// Receive handles a message of a peer. Run answers repair requests. If too many wait, the rest
// are dropped, and the peer repeats them.
func (s *Store) Receive(message []byte) {
	if len(message) > 1 && message[1] == wire.KindRepair {
		select {
		case s.repairs <- append([]byte(nil), message...):
		default:
		}
		return
	}
	s.send(s.node.Receive(message, s.clock.Now()))
}

// Stats returns the current figures.
func (s *Store) Stats() Stats { return s.node.Stats() }
