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
	// Keys is about the largest number of shares in memory; 0 means DefaultKeys. If more are in
	// use, some count as used up now and then.
	Keys int

	// Clock reads a clock that nobody sets; nil: that of the machine.
	Clock func() stint.Instant
}

// Store is a [stint.Store] around a store that has the rest of each divided limit. It charges
// takes of divided limits (see [stint.Terms]) to the share of this process if they fit, and else
// lets the store decide them under the rest. All other takes go to the store. Run must run beside
// it. It is safe for concurrent use. The zero Store is not usable, see New.
//
// # Decisions
//
// The limit of a decision is the whole limit. Remaining is an estimate: what is left of the
// share, and the last Remaining of the store. RetryAfter is the sooner of the two. ResetAfter is
// that of the share that was charged, and on a denial the later of the two.
//
// An AskAtMost is charged to the share if that has all it asks for, else to the store. If the store
// denies it, it gets what the share has; in a call of several takes 1 unit.
//
// # When the store is away
//
// The share works as before. What does not fit is denied and Degraded, with a RetryAfter of a
// second at most. A forced take is then debited to the share.
//
// # All or none
//
// Of a call of several takes, those that fit are charged to shares first; then the store decides
// the others. If it denies, the shares get their units back.
type Store struct {
	node  *Node
	inner stint.Store
	clock func() stint.Instant

	// Takes of divided limits hold the read lock while they are decided, so that all rules change
	// at one moment.
	rulesMu sync.RWMutex
}

var _ stint.Store = (*Store)(nil)

// New returns a store without shares.
func New(inner stint.Store, o Options) *Store {
	s := &Store{node: NewNode(o), inner: inner, clock: o.Clock}
	if s.clock == nil {
		began := time.Now()
		s.clock = func() stint.Instant { return stint.At(began).Add(time.Since(began)) }
	}
	return s
}

// Decide implements [stint.Store].
func (s *Store) Decide(ctx context.Context, call *stint.Call) error {
	if !divided(call) {
		return s.inner.Decide(ctx, call)
	}
	if err := call.Check(); err != nil {
		return err
	}
	if transaction.Depends(call) {
		return transaction.Apart(ctx, call, s.Decide)
	}
	s.rulesMu.RLock()
	defer s.rulesMu.RUnlock()
	if err := s.decide(ctx, call); err != nil || !deniedAtMost(call) {
		return err
	}
	return s.decideOne(ctx, call)
}

// decide decides a call from the shares, or lets the store decide it.
func (s *Store) decide(ctx context.Context, call *stint.Call) error {
	if req := s.node.Begin(call, s.clock()); req != nil {
		return s.ask(ctx, req)
	}
	return nil
}

// deniedAtMost reports whether an AskAtMost of a divided limit denies a call of several takes, which
// may pass for 1 unit: its share has less than the cost, and the store nothing. A denial that was
// charged is not repeated.
func deniedAtMost(call *stint.Call) bool {
	denied := false
	for i := range call.Takes {
		t := &call.Takes[i]
		if t.Independent {
			continue
		}
		if spec := t.Limit.Spec(); spec.Overdraw || spec.CountDenied {
			return false
		}
		terms := t.Terms()
		denied = denied || t.Op == stint.AskAtMost && !call.Results[i].Allowed && terms != nil && terms.Own != nil
	}
	return denied && len(call.Takes) > 1
}

// decideOne decides the takes of a call that are not Independent again; each AskAtMost asks for 1
// unit.
func (s *Store) decideOne(ctx context.Context, call *stint.Call) error {
	again, of := stint.Call{At: call.At}, []int(nil)
	for i := range call.Takes {
		t := call.Takes[i]
		if t.Independent {
			continue
		}
		if t.Op == stint.AskAtMost {
			t.Op, t.Cost = stint.Ask, min(t.Cost, 1)
		}
		again.Takes, of = append(again.Takes, t), append(of, i)
	}
	if err := s.decide(ctx, &again); err != nil {
		if transaction.Undecodable(err) == nil {
			err = s.giveBack(ctx, call, err)
		}
		return transaction.Renumber(err, of)
	}
	for n, i := range of {
		call.Results[i] = again.Results[n]
	}
	if !transaction.Denied(&again) {
		transaction.SetCharged(call, 1)
	}
	return nil
}

// giveBack gives back what the Independent takes of a denied call were charged, because the call
// fails with err, and returns the error of the call.
func (s *Store) giveBack(ctx context.Context, call *stint.Call, err error) error {
	var charged transaction.Charges
	charged.Add(0, call, nil)
	back := stint.Call{At: call.At}
	for _, c := range charged.Refunds(nil) {
		back.Takes = append(back.Takes, transaction.Refund(*c.Take, c.Cost, c.By))
	}
	failed := false
	if len(back.Takes) > 0 {
		ctx, cancel := transaction.UndoContext(ctx)
		defer cancel()
		failed = s.decide(ctx, &back) != nil
	}
	if failed || charged.Lasting {
		return fmt.Errorf("quota: %w: %w", stint.ErrUnknown, err)
	}
	return err
}

// divided reports whether any take has a divided limit.
func divided(call *stint.Call) bool {
	for i := range call.Takes {
		if t := call.Takes[i].Terms(); t != nil && t.Own != nil {
			return true
		}
	}
	return false
}

// ask sends a request to the store and ends it, even if the store panics.
func (s *Store) ask(ctx context.Context, req *Request) (err error) {
	err = errPanicked
	defer func() { err = s.node.End(req, s.clock(), err) }()
	return s.inner.Decide(ctx, &req.Call)
}

// errPanicked ends a request while the store's panic continues to the caller.
var errPanicked = errors.New("quota: the store panicked")

// Pause waits for takes of divided limits in progress, and holds others back until the caller
// calls release, which it must. The rules change meanwhile.
func (s *Store) Pause() (release func()) {
	s.rulesMu.Lock()
	return s.rulesMu.Unlock
}

// Change sets the rules, see Node.Change. Call it under Pause, with all rules, before the first
// take under them. It debits the store within the time of ctx. An error means that some debits
// failed; that use may be admitted once more.
func (s *Store) Change(ctx context.Context, all []*stint.Terms) error {
	failed := 0 // keys that the store did not debit
	reqs := s.node.Change(all, s.clock())
	for i, req := range reqs {
		err := s.inner.Decide(ctx, &req.Call)
		undecodable := transaction.Undecodable(err)
		if err != nil && undecodable == nil {
			return fmt.Errorf("could not debit the store for up to %d keys: %w", (len(reqs)-i)*maxCharges, err)
		}
		for k := range req.Call.Results {
			if !transaction.Decided(&req.Call, undecodable, k) || req.Call.Results[k].Degraded {
				failed++
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("keys not debited at the store: %d; it is away or cannot read their states", failed)
	}
	return nil
}

// Run removes untouched shares until ctx is done.
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

// sweepEvery is the time between two sweeps.
const sweepEvery = time.Second

// Sweep removes untouched shares.
func (n *Node) Sweep(now stint.Instant) {
	for i := range n.shards {
		s := &n.shards[i]
		s.mu.Lock()
		s.sweepLocked(s.latest.Of(now))
		s.mu.Unlock()
	}
}

// Keys returns the number of shares in memory.
func (s *Store) Keys() (n int) {
	for i := range s.node.shards {
		part := &s.node.shards[i]
		part.mu.Lock()
		n += len(part.shares)
		part.mu.Unlock()
	}
	return n
}

// Passed calls of with each divided rule and the number of takes that this process charged to its
// shares.
func (s *Store) Passed(of func(domain, rule string, passed uint64)) {
	for id, r := range s.node.rules.Load().byName {
		if r.own != nil && !r.terms.Candidate {
			of(id.domain, id.rule, r.passed.Load())
		}
	}
}

// Share is what this process has of a key's limit.
type Share struct {
	Limit     *stint.Limit
	Remaining int64
}

// Share returns this process's share of a take's key, if its limit is divided.
func (s *Store) Share(t *stint.Take) (p Share, divided bool) { return s.node.Share(t, s.clock()) }

// Share returns the node's share of a take's key at now, if its limit is divided.
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
