package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stint"
)

// Options are the optional parts of a Store. The zero value is ready to use.
type Options struct {
	// Ahead is for how long a node asks for units of a key at a time; 0 means
	// DefaultAhead. More asks the store less often, and leaves more units lying where
	// nobody asks for them.
	Ahead time.Duration

	// Part says in which part of the store the key of a take lies, if it has several: a
	// message is about keys of one part. Nil: there is one.
	Part func(*stint.Take) int

	// Clock reads the clocks of this process; nil: the machine's.
	Clock func() Moment

	// Seed fixes everything random, the node's number among it, so that a simulation can
	// be repeated. 0, which is what a server wants, is another one each time.
	Seed uint64
}

// Store is a stint.Store around one that lends (see [stint.Loan]): takes that are Leased
// are decided in this process where it holds units of their key, and all else by the store.
// Run has to run beside it. It is safe for concurrent use; the zero Store is not usable,
// see New.
//
// # What is exact, and what is estimated
//
// What passes is exact: on all nodes together never more than the limit says, in any
// window, whatever becomes of nodes, messages and the store. Remaining and ResetAfter are
// estimated where a node answers by itself, from what the store last said and what the
// node has spent since. A RetryAfter is never too short by more than the store's clock and
// the node's run apart meanwhile. Somebody may be denied while other nodes hold units that
// they have not used yet; those come home when they lie idle, in a quarter of
// Options.Ahead.
//
// # All or none
//
// Of a call of several takes those that can be are taken here first; then the store is
// asked for the others. If it denies, what was taken here is given back.
//
// # What is decided by the store
//
// The store decides these, as if the rule were strict:
//
//   - takes that borrow from others, and takes that are Live
//   - limits that overdraw or reserve, and all algorithms but steady token_bucket and fixed_window
//   - calls that set their own time
//   - takes that force, refund, settle or reset
//
// # When the store is away
//
// The node first spends the units that it holds. After that a take gets the answer of the inner store.
// A guard (package guard) belongs around the store, inside this one; it answers by the rule's policy.
type Store struct {
	node   *Node
	inner  stint.Store
	fixed  func() Moment // nil: own
	clocks clocks

	sendMu sync.Mutex // held by who sends messages
}

var _ stint.Store = (*Store)(nil)

// New returns a store that holds no units yet.
func New(inner stint.Store, o Options) *Store {
	s := &Store{node: NewNode(o), inner: inner, fixed: o.Clock, clocks: clocks{start: time.Now()}}
	s.clocks.both()
	return s
}

// clock reads the clocks.
func (s *Store) clock() Moment {
	if s.fixed != nil {
		return s.fixed()
	}
	return s.clocks.now()
}

// Decide answers the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if e := s.node.busy(call); e != nil && e.answer(&call.Takes[0], s.clock(), result(call)) {
		return nil
	}
	if err := call.Check(); err != nil {
		return err
	}
	if !leases(call) {
		return s.inner.Decide(ctx, call)
	}
	for waits := 0; ; waits++ {
		req, wait := s.node.Begin(call, s.clock(), waits < maxWaits)
		switch {
		case req != nil:
			return s.ask(ctx, req)
		case wait == nil:
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("lease: not decided, an answer about the key was on its way: %w", ctx.Err())
		}
	}
}

// leases reports whether any take is of a leased rule.
func leases(call *stint.Call) bool {
	for i := range call.Takes {
		if call.Takes[i].Coordination() == stint.Leased {
			return true
		}
	}
	return false
}

// maxWaits is how often a call waits for the answer to another call about the key before it asks the
// store itself.
const maxWaits = 3

// ask sends a req to the store and ends it, also if the store panics.
func (s *Store) ask(ctx context.Context, req *Request) (err error) {
	err = errPanicked
	defer func() { err = s.node.End(req, s.clock(), err) }()
	return s.inner.Decide(ctx, &req.Call)
}

// errPanicked stands for a panic that goes on to the caller.
var errPanicked = errors.New("lease: the store panicked")

// releaseTimeout bounds how long the node takes to return its units when it stops. The store writes off
// units that are not returned.
const releaseTimeout = time.Second

// Run asks the store for units of keys that run low and returns idle units, until ctx is done. Then it
// returns all units, within a second.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(s.node.Every())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sendMu.Lock()
			s.sendLocked(ctx, s.node.Tick(s.clock()))
			s.sendMu.Unlock()
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
			defer cancel()
			s.sendMu.Lock()
			s.sendLocked(last, s.node.Release(s.clock()))
			s.sendMu.Unlock()
			return
		}
	}
}

// sendLocked sends messages, those to different parts of the store in parallel. A later tick repeats
// those without an answer.
func (s *Store) sendLocked(ctx context.Context, reqs []*Request) {
	var all sync.WaitGroup
	for _, req := range reqs {
		if len(reqs) == 1 {
			_ = s.ask(ctx, req)
			return
		}
		all.Go(func() { _ = s.ask(ctx, req) })
	}
	all.Wait()
}

// Node returns the number of this node at the store.
func (s *Store) Node() uint64 { return s.node.id }

// Held returns how many units of a take's key the node was lent and has not spent.
func (s *Store) Held(t *stint.Take) int64 { return s.node.Held(t) }

// Held returns how many units of a take's key the node can still spend, by the clocks when
// they were lent.
func (n *Node) Held(t *stint.Take) int64 {
	if e := n.keys.find(n.keys.fingerprint(t), t); e != nil {
		return e.held.Load().units()
	}
	return 0
}

// Stats are the numbers of a Store.
type Stats struct {
	Keys     int64  // busy keys
	Held     int64  // units that were lent to this node and are unspent
	Idle     int64  // those of Held whose keys were not asked for since the last look
	Asks     uint64 // calls that the store decided
	Messages uint64 // messages to the store about units of this node
	Repeated uint64 // keys in messages that were sent again for lack of an answer
	Lent     uint64 // units that were lent to this node
	Returned uint64 // units of Lent that the node returned
}

// Stats returns the present numbers.
func (s *Store) Stats() Stats { return s.node.Stats() }

// Stats returns the present numbers.
func (n *Node) Stats() Stats {
	st := Stats{
		Keys: n.keys.n.Load(), Asks: n.count.asks.Load(), Messages: n.count.messages.Load(),
		Repeated: n.count.repeated.Load(), Lent: n.count.lent.Load(), Returned: n.count.returned.Load(),
	}
	for e := range n.keys.all {
		left := e.held.Load().units()
		st.Held += left
		e.mu.Lock()
		if e.idleTicks > 0 {
			st.Idle += left
		}
		e.mu.Unlock()
	}
	return st
}
