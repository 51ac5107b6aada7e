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

// A rule may change from and to gossip while takes of it come in. Nobody has a second burst
// by that:
//
//	it is gossip no more   each node debits the store with its part of what is used: as much
//	                       of that as it took of what all took that can be reached
//	it is gossip now       who first asks for a key of it here reads the store, and what is used
//	                       there counts as used here, for as long as that may be anything
//
// While some nodes have the new rules and others the old ones, what those take that have the
// others is not known.

// ruleSet are the rules in force, and what is to be read of the store.
type ruleSet struct {
	byName map[ruleName]*stint.Terms
	until  map[*stint.Terms]stint.Instant // of rules that are gossip since lately
	last   stint.Instant                  // of these
}

// read has the store read about the keys of a rule until then.
func (r *ruleSet) read(t *stint.Terms, until stint.Instant) {
	r.until[t], r.last = until, max(r.last, until)
}

// ruleName names a rule, from one version of it to the next.
type ruleName struct{ domain, rule string }

// ErrNotDebited says that the store could not be told what was used of keys that it decides
// from now on.
var ErrNotDebited = errors.New("gossip: the store does not answer")

// Change puts other rules in force, before any take comes with them: all there are, in their
// present form. It tells the store what was used under rules that are gossip no more, within
// the time of ctx; an error says that so much may pass once more. Takes wait until done is
// called, which must be.
func (s *Store) Change(ctx context.Context, all []*stint.Terms) (done func(), err error) {
	s.rulesMu.Lock() // waits for the takes that are under way
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

// maxDebits is how many keys are in a message.
const maxDebits = 64

// Leave forgets the keys of rules that are gossip no more, of all there are in their present
// form, and returns what the store that decides them from now on is to be debited with.
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

// ownUse returns how much of what is used of a key is to be answered for by this node, beyond
// what the store knows.
func (e *entry) ownUse(peers []uint64, now stint.Instant) int64 {
	used := min(e.limit.ForStores().Used(&e.state, now), stint.MaxCost)
	if e.base != nil {
		used -= e.limit.ForStores().Used(e.base, now)
	}
	own := float64(wire.Net(e.own.Taken, e.own.Given))
	all := own
	for i := range e.counters {
		if _, live := slices.BinarySearch(peers, e.counters[i].origin); live {
			all += float64(wire.Net(e.counters[i].Taken, e.counters[i].Given))
		}
	}
	if own == 0 || used <= 0 {
		return 0
	}
	return min(used, int64(float64(used)*own/all)+1)
}

// readBase reads the store about keys of rules that are gossip since lately, and that were not
// asked for since. Where the store does not answer they begin anew.
func (s *Store) readBase(ctx context.Context, call *stint.Call) {
	rules := s.rules.Load()
	if rules == nil || rules.last == 0 {
		return
	}
	now := s.clock.Now()
	if now >= rules.last { // nothing is to be read any more
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

// wasRead says whether a take's key was read from the store.
func (n *Node) wasRead(t *stint.Take) bool {
	sh := n.shardOf(t.Limit.Algorithm(), t.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[name{t.Key, t.Limit.Algorithm()}]
	return e != nil && e.base != nil
}

// addRead counts units of a take's key as used, which no node took by gossip: once.
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
	e.base, e.baseAt = new(stint.State), now
	if units > 0 {
		e.limit.Force(e.base, now, uint64(units))
		e.force(uint64(units), now)
	}
}
