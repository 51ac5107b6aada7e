package eventual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stint"
)

// Store is a [stint.Store] around a store that many nodes share. It decides Eventual takes in
// this process and reports them to the store afterwards. Run must run beside it. It is safe for
// concurrent use. The zero Store is not usable, see New.
//
// # What is exact, and what is not
//
// All that passes is debited, once. A key that no other node takes from is decided exactly. The
// comment of the package says how much may pass above the limit. ResetAfter and Remaining are
// those of the store's last answer, with the takes of this node since. So is RetryAfter; other
// nodes may take units before it ends.
//
// An unknown key is read first: the store decides its take, and the answer contains its state.
// Other takes of the key wait for that. So a key with few takes costs one call of the store for
// each, and is exact.
//
// Of a call of several takes, all are charged or none. If one is of an unknown key, all unknown
// keys are read first.
//
// # What the store decides
//
// The store decides these calls as a whole, as in strict mode:
//
//   - with a take that is not Eventual, borrows from others, settles or resets
//   - with a take that undoes a Degraded decision
//   - with a limit whose uses cannot be added up (see [stint.StoreLimit.Mergeable])
//   - that set their own time
//
// The next message to the store then reads the result.
//
// # How many keys are in memory
//
// As many as Options.Budget allows, and of a rule with [stint.Terms].Keys that number. About the
// least recently used keys are evicted first (CLOCK). A key with unsent counts is never evicted.
// One that is over its limit is evicted only if there are no others. If no key can be evicted,
// the store decides the new one.
//
// # When the store is away
//
// Nodes decide alone for three intervals. After that a take gets the answer of the inner store.
// Put a guard (package guard) around the store, inside this one; it decides by the rule's failure
// policy. Counts stay in memory and are sent when the store is back. A process that is killed
// loses its unsent counts: those of one interval, or since the store went away. Run sends all
// counts at its end. A key whose state the store cannot read is handled like a store that is
// away, for this key only.
type Store struct {
	node  *Node
	inner stint.Store
	clock func() stint.Instant
	took  atomic.Int64 // duration of the last exchange, with all its messages

	exchanging sync.Mutex // held during an exchange
}

var _ stint.Store = (*Store)(nil)

// New returns a store without keys.
func New(inner stint.Store, o Options) *Store {
	s := &Store{node: NewNode(o), inner: inner, clock: o.Clock}
	if s.clock == nil {
		s.clock = clock()
	}
	return s
}

// clock returns a clock that starts at the machine's time and advances by its monotonic clock.
func clock() func() stint.Instant {
	start := time.Now()
	base := stint.At(start)
	return func() stint.Instant { return base + stint.Instant(time.Since(start)/time.Microsecond) }
}

// maxTries is how often a call waits for a key that is being read.
const maxTries = 4

// errNotSent is used if a failure policy answered instead of the store.
var errNotSent = errors.New("eventual: could not report to the store")

// errPanicked ends a request while the store's panic continues to the caller.
var errPanicked = errors.New("eventual: the store panicked")

// Decide implements [stint.Store].
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if err := call.Check(); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		req, wait := s.node.Begin(call, s.clock(), tries < maxTries)
		switch {
		case req != nil:
			next, err := s.ask(ctx, req)
			if next == Done {
				return err
			}
			if next == AskStore {
				tries = maxTries
			}
		case wait == nil:
			return nil
		default:
			select {
			case <-wait:
			case <-ctx.Done():
				return fmt.Errorf("eventual: not decided while the key was being read: %w", ctx.Err())
			}
		}
	}
}

// ask sends a request to the store and ends it, even if the store panics.
func (s *Store) ask(ctx context.Context, req *Request) (next Next, err error) {
	err = errPanicked
	defer func() { next, err = s.node.End(req, s.clock(), err) }()
	err = s.inner.Decide(ctx, req.Call)
	return next, err
}

// flushTimeout bounds the last exchange.
const flushTimeout = time.Second

// Run sends counts to the store until ctx is done. Then it sends all that are left, within a
// second; see Unsent.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(s.node.Every())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.exchange(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			defer cancel()
			for s.exchange(last) && last.Err() == nil {
				select {
				case <-tick.C:
				case <-last.Done():
				}
			}
			return
		}
	}
}

// Unsent returns the number of keys with unsent counts, and the sum of these units. After Run
// these are lost, except for those that a message without an answer has charged.
func (s *Store) Unsent() (keys int, units int64) {
	n, left := s.node, map[*entry]bool{}
	add := func(e *entry, u int64) {
		if u != 0 {
			left[e] = true
			units += max(u, -u)
		}
	}
	for e := range n.keys.all {
		e.mu.Lock()
		late, unsent := e.late, e.unsent
		e.mu.Unlock()
		add(e, late)
		add(e, unsent)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, req := range slices.Concat(n.unanswered, n.parts, n.undecodable) {
		for i := range req.items {
			add(req.items[i].entry, req.items[i].units)
		}
	}
	return len(left), units
}

// maxInFlight is the number of messages in flight. It is low, so that requests of clients wait
// behind few of them.
const maxInFlight = 2

// exchange sends all messages to the store. It returns false if there are none.
func (s *Store) exchange(ctx context.Context) bool {
	s.exchanging.Lock()
	defer s.exchanging.Unlock()
	began := s.clock()
	reqs := s.node.Tick(began)
	s.send(ctx, reqs)
	rest := s.node.Later(s.clock())
	s.send(ctx, rest)
	if len(reqs) > 0 {
		s.took.Store(int64(s.clock() - began))
	}
	return len(reqs)+len(rest) > 0
}

// send sends messages to the store and waits for the answers.
func (s *Store) send(ctx context.Context, reqs []*Request) {
	var all sync.WaitGroup
	var at atomic.Int64
	for range min(maxInFlight, len(reqs)) {
		all.Go(func() {
			for i := at.Add(1); int(i) <= len(reqs); i = at.Add(1) {
				_, _ = s.ask(ctx, reqs[i-1]) // the next tick repeats it
			}
		})
	}
	all.Wait()
}

// Stats are the figures of a Store.
type Stats struct {
	Keys        int64  // in memory
	Bytes       int64  // memory of the keys
	Unanswered  int64  // keys in messages without an answer so far
	Undecodable int64  // keys whose states the store cannot read
	Away        bool   // some partition of the store does not answer
	Reads       uint64 // of unknown keys
	Forwarded   uint64 // calls that the store decided
	Messages    uint64 // to the store, each about many keys
	Repeated    uint64 // keys in repeated messages
	Units       uint64 // sent to the store
	Peeks       uint64 // keys in messages of which nothing was taken here
	Evicted     uint64 // keys removed to make room
	Refused     uint64 // keys without room, decided by the store

	Exchange time.Duration // duration of the last exchange
}

// Stats returns the current figures.
func (s *Store) Stats() Stats {
	st := s.node.Stats()
	st.Exchange = time.Duration(s.took.Load()) * time.Microsecond
	return st
}

// Stats returns the current figures.
func (n *Node) Stats() Stats {
	c := &n.count
	st := Stats{
		Keys: n.keys.n.Load(), Bytes: n.bytes.Load(), Reads: c.reads.Load(), Forwarded: c.forwarded.Load(),
		Messages: c.messages.Load(), Repeated: c.repeated.Load(), Units: c.units.Load(), Peeks: c.peeks.Load(),
		Evicted: c.evicted.Load(), Refused: c.refused.Load(), Undecodable: n.undecodableKeys.Load(),
	}
	n.servers.Range(func(_, h any) bool {
		st.Away = st.Away || h.(*server).failing.Load() != 0
		return true
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, req := range n.unanswered {
		st.Unanswered += int64(len(req.items))
	}
	return st
}
