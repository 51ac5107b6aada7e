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
// Takes that lean on others or are Live; limits that overdraw or hold; other algorithms
// than token_bucket (steady) and fixed_window; calls that say what time it is; whatever is
// forced, given back, settled or reset. Those are strict.
//
// # When the store is away
//
// What is held is spent first. Then a take gets what the inner store says: a guard around
// the store (package guard) belongs inside, and answers by the rule's policy.
type Store struct {
	node  *Node
	inner stint.Store
	set   func() Moment // nil: own
	own   clocks

	sending sync.Mutex // held by who sends messages
}

var _ stint.Store = (*Store)(nil)

// New returns a store that holds nothing yet.
func New(inner stint.Store, o Options) *Store {
	s := &Store{node: NewNode(o), inner: inner, set: o.Clock, own: clocks{start: time.Now()}}
	s.own.both()
	return s
}

// clock reads the clocks.
func (s *Store) clock() Moment {
	if s.set != nil {
		return s.set()
	}
	return s.own.now()
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
		trip, wait := s.node.Begin(call, s.clock(), waits < maxWaits)
		switch {
		case trip != nil:
			return s.ask(ctx, trip)
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

// leases says whether any take is of a key of which units may be lent.
func leases(call *stint.Call) bool {
	for i := range call.Takes {
		if call.Takes[i].Coordination == stint.Leased {
			return true
		}
	}
	return false
}

// maxWaits is how many answers to others a call waits for, before it asks by itself.
const maxWaits = 3

// ask puts a trip to the store, and ends it also if that panics.
func (s *Store) ask(ctx context.Context, trip *Trip) (err error) {
	err = errPanicked
	defer func() { err = s.node.End(trip, s.clock(), err) }()
	return s.inner.Decide(ctx, &trip.Call)
}

// errPanicked stands for a panic that goes on to the caller.
var errPanicked = errors.New("lease: the store panicked")

// releaseTimeout is how long it may take to give back all at the end: what the store does not
// hear of it writes off.
const releaseTimeout = time.Second

// Run asks for what runs low and gives back what lies idle, until ctx is done; then it
// gives everything back, within a second.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(s.node.Every())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sending.Lock()
			s.sendLocked(ctx, s.node.Tick(s.clock()))
			s.sending.Unlock()
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
			defer cancel()
			s.sending.Lock()
			s.sendLocked(last, s.node.Release(s.clock()))
			s.sending.Unlock()
			return
		}
	}
}

// sendLocked sends messages, those to different parts at once. What has no answer is repeated
// with a later tick.
func (s *Store) sendLocked(ctx context.Context, trips []*Trip) {
	var all sync.WaitGroup
	for _, trip := range trips {
		if len(trips) == 1 {
			_ = s.ask(ctx, trip)
			return
		}
		all.Go(func() { _ = s.ask(ctx, trip) })
	}
	all.Wait()
}

// Node returns the number by which the store knows this node.
func (s *Store) Node() uint64 { return s.node.id }

// Held returns how many units of a take's key are lent to this node and unspent.
func (s *Store) Held(t *stint.Take) int64 { return s.node.Held(t) }

// Held returns how many units of a take's key the node can still spend, by the clocks when
// they were lent.
func (n *Node) Held(t *stint.Take) int64 {
	if e := n.keys.find(n.keys.print(t), t); e != nil {
		return e.held.Load().now()
	}
	return 0
}

// Stats are the numbers of a Store.
type Stats struct {
	Keys     int64  // that are busy
	Held     int64  // units of them that are lent to this node and unspent
	Idle     int64  // of these, the units of keys that were not asked for in the last look
	Asks     uint64 // calls that the store decided
	Messages uint64 // about what this node holds
	Repeated uint64 // keys in messages that had no answer before
	Lent     uint64 // units that were lent to this node
	Home     uint64 // units of these that it gave back
}

// Stats returns the present numbers.
func (s *Store) Stats() Stats { return s.node.Stats() }

// Stats returns the present numbers.
func (n *Node) Stats() Stats {
	st := Stats{
		Keys: n.keys.n.Load(), Asks: n.count.asks.Load(), Messages: n.count.messages.Load(),
		Repeated: n.count.repeated.Load(), Lent: n.count.lent.Load(), Home: n.count.home.Load(),
	}
	for e := range n.keys.all {
		left := e.held.Load().now()
		st.Held += left
		e.mu.Lock()
		if e.unused > 0 {
			st.Idle += left
		}
		e.mu.Unlock()
	}
	return st
}
