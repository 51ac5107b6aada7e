package quota

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
	// Keys is how many keys a process knows the part of at most, about; 0 means DefaultKeys.
	// Where there are more in use some parts count as empty now and then.
	Keys int

	// Clock reads a clock that nobody sets; nil: the machine's.
	Clock func() stint.Instant
}

// Store is a stint.Store around one that has the rest: takes whose terms divide their limit
// (see [stint.Terms]) are charged to the part of this process where they fit into it, and
// else decided by the store under the rest. All other takes pass through. Run has to run
// beside it. It is safe for concurrent use; the zero Store is not usable, see New.
//
// # What is said outside
//
// The limit of a decision is the whole. Remaining is an estimate: what is left of the part,
// and what the store last said. A RetryAfter is the sooner of the two, and no earlier than
// either says. ResetAfter is that of the part that was charged, the later one on a refusal.
//
// # When the store is away
//
// The part goes on as ever. What does not fit into it is denied, and Degraded, as nobody
// could ask for the rest; it asks to come back in a second at most. A forced take is debited
// to the part then.
//
// # All or none
//
// Of a call of several takes those that fit are charged here first; then the store is asked
// for the others. If it denies, what was charged here is given back.
type Store struct {
	node  *Node
	inner stint.Store
	clock func() stint.Instant

	// Takes of divided limits hold gate while they are decided, so that a change of the
	// rules is one moment.
	rulesMu sync.RWMutex
}

var _ stint.Store = (*Store)(nil)

// New returns a store that has nothing yet.
func New(inner stint.Store, o Options) *Store {
	s := &Store{node: NewNode(o), inner: inner, clock: o.Clock}
	if s.clock == nil {
		began := time.Now()
		s.clock = func() stint.Instant { return stint.At(began).Add(time.Since(began)) }
	}
	return s
}

// Decide answers the call, see stint.Store.
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if !divided(call) {
		return s.inner.Decide(ctx, call)
	}
	if err := call.Check(); err != nil {
		return err
	}
	s.rulesMu.RLock()
	defer s.rulesMu.RUnlock()
	if req := s.node.Begin(call, s.clock()); req != nil {
		return s.ask(ctx, req)
	}
	return nil
}

// divided says whether the limit of any take is.
func divided(call *stint.Call) bool {
	for i := range call.Takes {
		if t := call.Takes[i].Terms(); t != nil && t.Own != nil {
			return true
		}
	}
	return false
}

// ask puts a req to the store, and ends it also if that panics.
func (s *Store) ask(ctx context.Context, req *Request) (err error) {
	err = errPanicked
	defer func() { err = s.node.End(req, s.clock(), err) }()
	return s.inner.Decide(ctx, &req.Call)
}

// errPanicked stands for a panic that goes on to the caller.
var errPanicked = errors.New("quota: the store panicked")

// Pause waits for the takes of divided limits that are under way, and holds others back until
// release is called, which must be: for a change of the rules.
func (s *Store) Pause() (release func()) {
	s.rulesMu.Lock()
	return s.rulesMu.Unlock
}

// Change puts other rules in force, see Node.Change: all there are, in their present form,
// under Hold, before any take comes with them. It tells the store what it has to know, within
// the time of ctx. The error says what could not be told: that passes once more.
func (s *Store) Change(ctx context.Context, all []*stint.Terms) error {
	untold := 0 // keys whose states the store cannot read
	reqs := s.node.Change(all, s.clock())
	for i, req := range reqs {
		err := s.inner.Decide(ctx, &req.Call)
		undecodable := transaction.Undecodable(err)
		if err != nil && undecodable == nil {
			return fmt.Errorf("the store was not told what %d keys or fewer had used here: %w", (len(reqs)-i)*maxCharges, err)
		}
		for k := range req.Call.Results {
			if !transaction.Decided(&req.Call, undecodable, k) || req.Call.Results[k].Degraded {
				untold++
			}
		}
	}
	if untold > 0 {
		return fmt.Errorf("the store was not told what %d keys had used here: it is away, or cannot read their states", untold)
	}
	return nil
}

// Run forgets what is not used, until ctx is done.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.node.Sweep(s.clock())
		case <-ctx.Done():
			return
		}
	}
}

// sweepEvery is how often what is not used is forgotten.
const sweepEvery = time.Second

// Sweep forgets parts of which nothing is used.
func (n *Node) Sweep(now stint.Instant) {
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		s.sweepLocked(s.latest.Of(now))
		s.mu.Unlock()
	}
}

// Keys returns of how many keys a part is in use.
func (s *Store) Keys() (n int) {
	for i := range s.node.shards {
		part := &s.node.shards[i]
		part.mu.Lock()
		n += len(part.shares)
		part.mu.Unlock()
	}
	return n
}

// Passed calls of with each rule that is divided, and how many takes were charged to its
// parts in this process.
func (s *Store) Passed(of func(domain, rule string, passed uint64)) {
	for id, r := range s.node.rules.Load().byName {
		if r.own != nil {
			of(id.domain, id.rule, r.passed.Load())
		}
	}
}

// Share is what this process has of a key.
type Share struct {
	Limit     *stint.Limit
	Remaining int64
}

// Share returns what this process has of a take's key, if its limit is divided.
func (s *Store) Share(t *stint.Take) (p Share, divided bool) { return s.node.Share(t, s.clock()) }

// Share returns what the node has of a take's key at now, if its limit is divided.
func (n *Node) Share(t *stint.Take, now stint.Instant) (p Share, divided bool) {
	r := n.rule(t, now)
	if r == nil || r.own == nil {
		return p, false
	}
	s := n.shard(t.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	there, _ := s.findLocked(r, t.Key, now)
	return Share{r.own, r.own.Test(&there.state, now, 0).Remaining}, true
}
