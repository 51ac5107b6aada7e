package gossip

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"stint"
	"stint/fleet/gossip/wire"
	"stint/internal/system"
)

// Peers carry messages between nodes. Package fleet/gossip/members has those of a network.
type Peers interface {
	// Open begins: from now on to is told whom it can reach, and gets their messages. It may
	// be told before Open returns.
	Open(to Receiver) error

	// Send sends a message to who it is for. It does not wait until it is there, which it
	// may never be.
	Send(m Message)

	// Foreign says that a peer sends messages in the format of another release: it and this node
	// do not understand each other in everything. It is told once of each, and returns soon.
	Foreign(peer uint64)

	// Run looks for others until ctx is done.
	Run(ctx context.Context)

	// Close says goodbye, and ends.
	Close()
}

// Receiver is a node as Peers see it. A Store is one.
type Receiver interface {
	// ID returns the node's number.
	ID() uint64
	// AddPeer says that another node can be reached.
	AddPeer(peer uint64)
	// RemovePeer says that one can be reached no more.
	RemovePeer(peer uint64)
	// Receive takes a message. It returns soon, and the bytes are the caller's again.
	Receive(message []byte)
}

// StoreOptions are the optional parts of a Store. The zero value is ready to use.
type StoreOptions struct {
	Options

	// Around puts a store around the one that asks all peers before it decides (see
	// [stint.Terms].AskPeers), such as a guard with a deadline. Nil: none, so that a take waits
	// for as long as its caller's context lasts.
	Around func(stint.Store) stint.Store

	// Base is the store of the other modes: it is told and asked of keys of rules that change
	// from and to gossip, see Change. Nil: there is none, and they begin anew.
	Base stint.Store
}

// Store is a stint.Store that decides by itself, from what this process took and what
// others told it: see the comment of the package for what that promises. It is safe for
// concurrent use. The zero Store is not usable, see New.
//
// Its life is Start, then Run until the end; before Start, and without peers, it counts by
// itself. A decision costs no message, no wait and no memory. Takes that say AskPeers wait
// for the answers of all peers that can be reached; if one does not answer while the context
// lasts, that is an error, and nothing was charged.
//
// What is kept lives in memory, and in the memory of the other nodes: one that starts anew
// is told by them. When all stop at once everything is forgotten.
type Store struct {
	node    *Node
	peers   Peers
	asking  stint.Store
	base    stint.Store
	clock   system.Clock
	wants   chan []byte
	rules   atomic.Pointer[ruleSet]
	rulesMu sync.RWMutex // held to change the rules
}

var (
	_ stint.Store = (*Store)(nil)
	_ Receiver    = (*Store)(nil)
)

// New returns a store that knows nobody yet. Nil peers: it never will.
func New(peers Peers, o StoreOptions) *Store {
	s := &Store{node: NewNode(o.Options), peers: peers, base: o.Base, wants: make(chan []byte, 64)}
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

// Decide answers the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	s.readBase(ctx, call)
	for i := range call.Takes {
		if asksPeers(&call.Takes[i]) {
			return s.asking.Decide(ctx, call)
		}
	}
	return s.decide(call)
}

// decide answers a call from what is known, unless the rules are being changed: then it waits.
func (s *Store) decide(call *stint.Call) error {
	s.rulesMu.RLock()
	defer s.rulesMu.RUnlock()
	return s.node.Decide(call, s.clock.Now())
}

// asking is a store that asks all peers first.
type asking struct{ *Store }

// errNoReply says that a peer did not answer.
var errNoReply = errors.New("gossip: not all peers answered")

// Decide answers the call once all peers have said what they took.
func (a asking) Decide(ctx context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
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

// Start begins to look for peers. Those who wait for Whole know what the others know.
func (s *Store) Start() error {
	if s.peers == nil {
		return nil
	}
	return s.peers.Open(s)
}

// WaitSynced waits, between Start and Run, until one of the peers has told all it knows, if there
// is any, or until ctx is done.
func (s *Store) WaitSynced(ctx context.Context) bool {
	const looks = 5 * time.Millisecond
	look := time.NewTicker(looks)
	defer look.Stop()
	for wait := time.Duration(0); ; wait -= looks {
		if s.node.Synced() {
			return true
		}
		if wait <= 0 { // it asks, and asks others
			s.send(s.node.Tick(s.clock.Now()))
			wait = s.node.Interval()
		}
		select {
		case <-look.C:
		case message := <-s.wants: // of others who are as new
			s.send(s.node.Receive(message, s.clock.Now()))
		case <-ctx.Done():
			return false
		}
	}
}

// Run tells the others what was taken here, until ctx is done; then it tells the rest and
// leaves.
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
		case message := <-s.wants:
			s.send(s.node.Receive(message, s.clock.Now()))
		case <-ctx.Done():
			s.send(s.node.Last(s.clock.Now())) // before what may take long
			<-looking
			s.send(s.node.Last(s.clock.Now()))
			s.peers.Close()
			return
		}
	}
}

// runAlone forgets keys as they become as untouched.
func (s *Store) runAlone(ctx context.Context, tick *time.Ticker) {
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

// ID returns the node's number, another one after each start.
func (s *Store) ID() uint64 { return s.node.ID() }

// AddPeer says that another node can be reached.
func (s *Store) AddPeer(peer uint64) { s.node.AddPeer(peer) }

// RemovePeer says that another node cannot be reached any more.
func (s *Store) RemovePeer(peer uint64) { s.node.RemovePeer(peer) }

// Receive takes a message of a peer. One that asks for much is answered by Run; if there are
// too many of these they are lost, and come again.
func (s *Store) Receive(message []byte) {
	if len(message) > 1 && message[1] == wire.KindRepair {
		select {
		case s.wants <- append([]byte(nil), message...):
		default:
		}
		return
	}
	s.send(s.node.Receive(message, s.clock.Now()))
}

// Stats returns the present numbers.
func (s *Store) Stats() Stats { return s.node.Stats() }
