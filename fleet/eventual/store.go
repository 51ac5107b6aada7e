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

// Store is a stint.Store around one that many nodes share: takes that are Eventual are decided
// in this process, and the store is told afterwards. Run has to run beside it. It is safe for
// concurrent use; the zero Store is not usable, see New.
//
// # What is exact, and what is not
//
// All that passes is debited, once; a key that nobody else takes from is decided exactly.
// How much may pass too much stands at the package. ResetAfter and Remaining are what the
// store last said, with what was taken here since; so is RetryAfter, before which others may
// take.
//
// A key that is not known here is read first: its take is put to the store, whose answer says
// all there is to know, and others who ask for it meanwhile wait for that. So a key that is
// asked for rarely costs one call for each time, and is exact.
//
// Of a call of several takes all are charged or none. Where one is not known all are read
// first.
//
// # What is decided by the store
//
// Calls of which a take is not Eventual, leans on others, is settled or reset, or undoes a
// Degraded one; limits that cannot be counted in parts (see [stint.StoreLimit.Mergeable]); calls
// that say what time it is. As a whole, as in strict mode; this node hears of it with its
// next message.
//
// # How many keys are kept
//
// As many as Options.Budget has room for; of a rule with [stint.Terms].Keys so many.
// Who was not asked for longest goes first, nearly (CLOCK); nobody goes of whom the store has
// not been told all, and nobody who is over the limit before the hand has gone round over all
// others. Where nobody can go a new key is decided by the store.
//
// # When the store is away
//
// Nodes go on by themselves for three intervals. Then takes get what the inner store says: a
// guard around the store (package guard) belongs inside, and answers by the rule's policy. What
// was taken meanwhile is kept and told when the store is back. A process that is killed
// loses what it has not told: what it took in one interval, or since the store was away. When
// Run ends it tells all. A key of which the store cannot read the state is like a store that is
// away, for this key only.
type Store struct {
	node  *Node
	inner stint.Store
	clock func() stint.Instant
	took  atomic.Int64 // the last exchange, with all its messages

	exchanging sync.Mutex // one exchange at a time
}

var _ stint.Store = (*Store)(nil)

// New returns a store that knows nothing yet.
func New(inner stint.Store, o Options) *Store {
	s := &Store{node: NewNode(o), inner: inner, clock: o.Clock}
	if s.clock == nil {
		s.clock = clock()
	}
	return s
}

// clock returns the machine's clock, which runs as evenly as its monotonic clock.
func clock() func() stint.Instant {
	start := time.Now()
	base := stint.At(start)
	return func() stint.Instant { return base + stint.Instant(time.Since(start)/time.Microsecond) }
}

// maxTries is how often a call is begun with patience.
const maxTries = 4

// errNotSent says that a failure policy answered in place of the store.
var errNotSent = errors.New("eventual: the store was not told")

// errPanicked stands for a panic that goes on to the caller.
var errPanicked = errors.New("eventual: the store panicked")

// Decide answers the call, see stint.Store.
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
				return fmt.Errorf("eventual: not decided, the key was being read: %w", ctx.Err())
			}
		}
	}
}

// ask puts a request to the store, and ends it also if that panics.
func (s *Store) ask(ctx context.Context, req *Request) (next Next, err error) {
	err = errPanicked
	defer func() { next, err = s.node.End(req, s.clock(), err) }()
	err = s.inner.Decide(ctx, req.Call)
	return next, err
}

// flushTimeout is how long it may take to tell the store all at the end.
const flushTimeout = time.Second

// Run tells the store what was taken, until ctx is done; then it tells it all, within a
// second, see Untold.
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

// Unsent returns of how many keys the store has not been told all, and how many units that
// are: after Run, what is lost. Some may have been charged by a message without an answer.
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

// maxInFlight is how many messages are on their way at once: few, so that those who wait for
// the store do not wait for much of what nobody waits for.
const maxInFlight = 2

// exchange puts all messages to the store; false if there are none.
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

// send puts messages to the store, and waits for the answers.
func (s *Store) send(ctx context.Context, reqs []*Request) {
	var all sync.WaitGroup
	var at atomic.Int64
	for range min(maxInFlight, len(reqs)) {
		all.Go(func() {
			for i := at.Add(1); int(i) <= len(reqs); i = at.Add(1) {
				_, _ = s.ask(ctx, reqs[i-1]) // it is repeated
			}
		})
	}
	all.Wait()
}

// Stats are the numbers of a Store.
type Stats struct {
	Keys        int64  // that are known here
	Bytes       int64  // that they take
	Unanswered  int64  // keys of messages that had no answer yet
	Undecodable int64  // keys that the store was not told of, as it cannot read their states
	Away        bool   // nothing comes through to some part of the store
	Reads       uint64 // of keys that were not known
	Forwarded   uint64 // calls that the store decided
	Messages    uint64 // to the store, about many keys each
	Repeated    uint64 // keys in these that had no answer before
	Units       uint64 // that the store was told of
	Peeks       uint64 // keys in messages of which nothing was taken here
	Evicted     uint64 // keys that went to make room
	Refused     uint64 // keys that found none, and were decided by the store

	Exchange time.Duration // how long the last one took
}

// Stats returns the present numbers.
func (s *Store) Stats() Stats {
	st := s.node.Stats()
	st.Exchange = time.Duration(s.took.Load()) * time.Microsecond
	return st
}

// Stats returns the present numbers.
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
