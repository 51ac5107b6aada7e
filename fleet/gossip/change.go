package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"stint"
	"stint/fleet/gossip/wire"
)

// A rule may change to gossip or away from it while its keys are in use. No key gets a second
// burst by that:
//
//	  away from gossip   each node debits the store with its part of the use: the part that it took
//	                     of what all reachable nodes took
//	  to gossip          the first take of a key on a node reads the store, and the use there counts
//	                     here, for as long as it can matter
//
// While some nodes have the new rules and some the old, neither see what the others take.

// ruleSet holds the rules in force, and until when to read the store for those that changed to
// gossip.
type ruleSet struct {
	byName map[ruleName]*stint.Terms
	until  map[*stint.Terms]stint.Instant // of rules that changed to gossip
	last   stint.Instant                  // the latest of until
}

// read makes takes of a rule read the store until a time.
func (r *ruleSet) read(t *stint.Terms, until stint.Instant) {
	r.until[t], r.last = until, max(r.last, until)
}

// ruleName identifies a rule across its versions.
type ruleName struct{ domain, rule string }

// ErrNotDebited is returned by Change if the store could not be debited with the use of keys that
// it decides from now on.
var ErrNotDebited = errors.New("gossip: the store does not answer")

// Change puts rules in force: all rules, before the first take under them. It debits the store
// with what was used under rules that are no longer gossip, within the time of ctx. An error
// means that this use may be admitted once more. Takes wait until the caller calls done, which it
// must.
func (s *Store) Change(ctx context.Context, all []*stint.Terms) (done func(), err error) {
	s.rulesMu.Lock() // waits for takes in progress
	done = s.rulesMu.Unlock
	now := s.clock.Now()
	old, next := s.rules.Load(), &ruleSet{byName: make(map[ruleName]*stint.Terms, len(all)), until: map[*stint.Terms]stint.Instant{}}
	for _, t := range all {
		id := ruleName{t.Domain, t.Rule}
		next.byName[id] = t
		if old == nil || s.base == nil || t.Coordination != stint.Gossip || t.Limit == nil {
			continue
		}
		switch was := old.byName[id]; {
		case was == nil:
		case was.Coordination != stint.Gossip:
			var used stint.State
			t.Limit.Force(&used, now, uint64(t.Limit.Capacity()))
			next.read(t, t.Limit.ForStores().Expiry(&used))
		case old.until[was] > now:
			next.read(t, old.until[was])
		}
	}
	s.rules.Store(next)
	if s.base == nil {
		return done, nil
	}
	var errs []error
	for some := range slices.Chunk(s.node.Leave(all, now), maxDebits) {
		call := stint.Call{Takes: some}
		if err := s.base.Decide(ctx, &call); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", ErrNotDebited, err))
		} else if slices.ContainsFunc(call.Results, func(d stint.Decision) bool { return d.Degraded }) {
			errs = append(errs, ErrNotDebited)
		}
	}
	return done, errors.Join(errs...)
}

// maxDebits is the number of keys in one call of the store.
const maxDebits = 64

// Leave removes the keys of rules that are no longer gossip, and returns the debits for the store
// that decides them from now on. It is given all rules.
func (n *Node) Leave(all []*stint.Terms, now stint.Instant) (debits []stint.Take) {
	next := make(map[ruleName]*stint.Terms, len(all))
	for _, t := range all {
		next[ruleName{t.Domain, t.Rule}] = t
	}
	n.session.mu.Lock()
	peers := slices.Clone(n.session.peers)
	n.session.mu.Unlock()
	for i := range n.shard {
		sh := &n.shard[i]
		sh.mu.Lock()
		for id, e := range sh.keys {
			if e.terms == nil {
				continue
			}
			terms := next[ruleName{e.terms.Domain, e.terms.Rule}]
			if terms == nil || terms.Coordination == stint.Gossip {
				continue
			}
			delete(sh.keys, id)
			if units := e.ownUse(peers, now); units > 0 && terms.Limit.Algorithm() == id.algorithm {
				debits = append(debits, stint.Take{
					Key: e.key, Handling: &stint.Handling{Place: e.place, OnFailure: stint.Deny}, Limit: terms.Limit, Cost: uint32(units), Op: stint.Force, Independent: true,
				})
			}
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(debits, func(a, b stint.Take) int { return cmp.Compare(a.Key, b.Key) })
	return debits
}

// ownUse returns the part of the use of a key that this node must debit the store with. What the
// store already counts is not in it.
func (e *entry) ownUse(peers []uint64, now stint.Instant) int64 {
	used := min(e.limit.ForStores().Used(&e.state, now), stint.MaxCost)
	if e.base != nil {
		used -= e.limit.ForStores().Used(e.base, now)
	}
	own := float64(wire.Net(e.own.Taken, e.own.Given))
	all := own
	for i := range e.counters {
		if _, live := slices.BinarySearch(peers, e.counters[i].node); live {
			all += float64(wire.Net(e.counters[i].Taken, e.counters[i].Given))
		}
	}
	if own == 0 || used <= 0 {
		return 0
	}
	return min(used, int64(float64(used)*own/all)+1)
}

// readBase reads the store for keys of rules that changed to gossip, at the first take of each.
// If the store does not answer, the key begins unused.
func (s *Store) readBase(ctx context.Context, call *stint.Call) {
	rules := s.rules.Load()
	if rules == nil || rules.last == 0 {
		return
	}
	now := s.clock.Now()
	if now >= rules.last { // no rule needs the store any more
		s.rules.CompareAndSwap(rules, &ruleSet{byName: rules.byName})
		return
	}
	for i := range call.Takes {
		t := &call.Takes[i]
		if until := rules.until[t.Terms()]; t.Terms() == nil || until <= now || !wire.Countable(t.Limit) || s.node.wasRead(t) {
			continue
		}
		look := stint.Call{Takes: []stint.Take{{Key: t.Key, Limit: t.Limit, Handling: &stint.Handling{Place: t.Place(), OnFailure: stint.Deny}}}}
		if err := s.base.Decide(ctx, &look); err != nil || look.Results[0].Degraded {
			continue
		}
		d := &look.Results[0]
		s.node.addRead(t, t.Limit.Capacity()-d.Remaining+d.Debt, s.clock.Now())
	}
}

// wasRead reports whether the use of a take's key was read from the store.
func (n *Node) wasRead(t *stint.Take) bool {
	sh := n.shardOf(t.Limit.Algorithm(), t.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[name{t.Key, t.Limit.Algorithm()}]
	return e != nil && e.base != nil
}

// addRead charges the units of a key that the store counts. The second call for a key does
// nothing.
func (n *Node) addRead(t *stint.Take, units int64, now stint.Instant) {
	sh := n.shardOf(t.Limit.Algorithm(), t.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.latest.Of(now)
	e := sh.keys[name{t.Key, t.Limit.Algorithm()}]
	if e == nil {
		e = n.addLocked(sh, t, now)
	}
	if e.base != nil {
		return
	}
	n.prepare(e, t.Limit, now)
	e.base = new(stint.State)
	if units > 0 {
		e.limit.Force(e.base, now, uint64(units))
		e.debit(&e.state, uint64(units), 0, now)
	}
	e.settle(e.state, now, stint.MaxInstant, now)
}
