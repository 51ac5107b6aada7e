package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
)

// Options are the optional parts of a Store. The zero value is ready to use.
type Options struct {
	// Ahead is the time for which a node asks for units of a key in advance; 0 means
	// DefaultAhead. A longer one asks the store less often, and leaves more units on nodes that
	// do not need them.
	Ahead time.Duration

	// Part returns the partition of the store that has the key of a take. Each message is about
	// keys of one partition. Nil: the store has one.
	Part func(*stint.Take) int

	// Clock reads the clocks of this process; nil: those of the machine.
	Clock func() Moment

	// Always makes the node ask for units also where lending saves no calls. It is for tests: such
	// a node holds units in more situations.
	Always bool

	// Seed is the seed of everything random, including the number of the node, so that a
	// simulation can be repeated. 0 means a random seed, which is what a server wants.
	Seed uint64
}

// Store is a [stint.Store] around a store that lends (see [stint.Loan]). It decides Leased takes
// in this process while it has units of their key; the store decides all others. Run must run
// beside it. It is safe for concurrent use. The zero Store is not usable, see New.
//
// # What is exact, and what is estimated
//
// What passes is exact: all nodes together never admit more than the limit in any window,
// whatever happens to nodes, messages and the store. If a node decides by itself, Remaining and
// ResetAfter are estimates, from the last answer of the store and what the node has spent since.
// A RetryAfter can be too short only by how far the clocks of the store and the node drift apart
// meanwhile, and if the store lost data and did not notice it yet. A take may be denied while other nodes hold units that they do not use. They return
// idle units after a quarter of Options.Ahead.
//
// # All or none
//
// Of a call of several takes, the node first charges those that it can decide, and then asks the
// store for the others. If the store denies, the node gives back what it charged.
//
// An AskAtMost that asks for more than the node has is decided by the store, to which the node first
// returns its units. If the store has none, the node charges what it has meanwhile. In a call of
// several takes the store decides each AskAtMost.
//
// # What the store decides
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
// The node first spends the units that it holds. After that a take gets the answer of the inner
// store. Put a guard (package guard) around the store, inside this one; it decides by the rule's
// failure policy.
type Store struct {
	node   *Node
	inner  stint.Store
	fixed  func() Moment // nil: use clocks
	clocks clocks

	sendMu sync.Mutex // held while messages are sent
}

var _ stint.Store = (*Store)(nil)

// New returns a store without units.
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

// Decide implements [stint.Store].
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
	if transaction.Depends(call) {
		return transaction.Apart(ctx, call, s.Decide)
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
			return fmt.Errorf("lease: not decided while another request about the key was in flight: %w", ctx.Err())
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

// maxWaits is how often a call waits for another request about the key before it asks the store
// itself.
const maxWaits = 3

// ask sends a request to the store and ends it, even if the store panics.
func (s *Store) ask(ctx context.Context, req *Request) (err error) {
	err = errPanicked
	defer func() { err = s.node.End(req, s.clock(), err) }()
	return s.inner.Decide(ctx, &req.Call)
}

// errPanicked ends a request while the store's panic continues to the caller.
var errPanicked = errors.New("lease: the store panicked")

// releaseTimeout bounds how long the node takes to return its units when it stops. The store
// writes off units that are not returned.
const releaseTimeout = time.Second

// Run asks the store for units of keys that run low and returns idle units, until ctx is done.
// Then it returns all units, within a second.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(s.node.Every())
	defer tick.Stop()
	slow := false
	for {
		select {
		case <-tick.C:
			s.sendMu.Lock()
			s.sendLocked(ctx, s.node.Tick(s.clock()))
			s.sendMu.Unlock()
			if !slow && s.node.rest() {
				slow = true
				tick.Reset(s.node.ahead)
			}
		case <-s.node.busyAgain:
			slow = false
			tick.Reset(s.node.Every())
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

// sendLocked sends messages, those to different partitions of the store in parallel. A later tick
// repeats messages without an answer.
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

// Held returns how many units of a take's key were lent to the node and are unspent.
func (s *Store) Held(t *stint.Take) int64 { return s.node.Held(t) }

// Held returns how many units of a take's key were lent to the node and are unspent, without
// regard to the end of the lease.
func (n *Node) Held(t *stint.Take) int64 {
	if e := n.keys.find(n.keys.fingerprint(t), t); e != nil {
		return e.held.Load().units()
	}
	return 0
}

// Stats are the figures of a Store.
type Stats struct {
	Keys     int64  // busy keys
	Held     int64  // units lent to this node and unspent
	Idle     int64  // units of Held whose keys nobody requested since the last tick
	Asks     uint64 // calls that the store decided
	Messages uint64 // to the store, about units of this node
	Repeated uint64 // keys in messages that were repeated because they had no answer
	Lent     uint64 // units lent to this node
	Returned uint64 // units of Lent that the node returned

	// LostUsedUp, LostKept and LostUnits are the sums of all Loss.
	LostUsedUp, LostKept, LostUnits uint64
}

// Stats returns the current figures.
func (s *Store) Stats() Stats { return s.node.Stats() }

// Stats returns the current figures.
func (n *Node) Stats() Stats {
	st := Stats{
		Keys: n.keys.n.Load(), Asks: n.count.asks.Load(), Messages: n.count.messages.Load(),
		Repeated: n.count.repeated.Load(), Lent: n.count.lent.Load(), Returned: n.count.returned.Load(),
		LostUsedUp: n.count.usedUp.Load(), LostKept: n.count.kept.Load(), LostUnits: n.count.lost.Load(),
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
