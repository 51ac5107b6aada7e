package quota

import (
	"cmp"
	"slices"

	"stint"
)

// maxCharges is how many keys are in a message.
const maxCharges = 128

// Change puts other rules in force: all there are, in their present form. It returns what to
// tell the store before any take comes with the new terms, and after the last one with the
// old ones has been decided. So that nobody passes twice:
//
//	a limit that is divided now      its parts count as empty: the store may have let all pass
//	one that is divided no longer    what was used of a part is debited at the store
//	a smaller part                   what was used of it and does not fit is debited there
//	a larger part                    what it holds more comes in with time
//
// A rule that counts in another way begins anew, as it does at the store.
func (n *Node) Change(all []*stint.Terms, now stint.Instant) []*Request {
	n.rulesMu.Lock()
	defer n.rulesMu.Unlock()
	old, next := n.rules.Load(), &ruleSet{map[*stint.Terms]*rule{}, map[name]*rule{}}
	by := map[*rule]*rule{} // what is in force instead
	for _, terms := range all {
		id := name{terms.Domain, terms.Rule}
		was := old.byName[id]
		if terms.Own == nil && (was == nil || was.own == nil) {
			continue
		}
		r := newRule(terms, was.emptyBefore(terms.Own, now))
		next.byTerms[terms], next.byName[id] = r, r
		if was != nil {
			by[was], r.passed = r, was.passed
		}
	}
	n.rules.Store(next)
	var charges []stint.Take
	for i := range n.shards {
		charges = append(charges, n.shards[i].change(by, now)...)
	}
	slices.SortFunc(charges, func(a, b stint.Take) int { return cmp.Compare(a.Key, b.Key) })
	var reqs []*Request
	for some := range slices.Chunk(charges, maxCharges) {
		reqs = append(reqs, &Request{Call: stint.Call{Takes: some}})
	}
	return reqs
}

// emptyBefore returns when a part of which nothing is known was empty, if it is to be of
// that limit from now on.
func (r *rule) emptyBefore(own *stint.Limit, now stint.Instant) stint.Instant {
	if r == nil || r.own == nil || own == nil || r.own.Algorithm() != own.Algorithm() {
		return now
	}
	var untouched stint.State
	r.own.Force(&untouched, r.empty, uint64(r.own.Capacity()))
	if !r.own.ForStores().Same(own) && (own.Capacity() > r.own.Capacity() || !r.own.Untouched(&untouched, now)) {
		return now
	}
	return r.empty
}

// change moves the parts to the rules that are in force now, and returns what is to be
// debited at the store.
func (s *shard) change(by map[*rule]*rule, now stint.Instant) (charges []stint.Take) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.latest.Of(now)
	for key, p := range s.shares {
		was, r := p.rule, by[p.rule]
		if r == nil || r.own != nil && r.own.Algorithm() != was.own.Algorithm() {
			delete(s.shares, key)
			continue
		}
		over := used(was.own, p, now)
		if r.own == nil {
			delete(s.shares, key)
		} else {
			r.own.ForStores().Migrate(&p.state, was.own, now)
			over -= used(r.own, p, now)
			r.own.Force(&p.state, now, uint64(max(0, r.own.Capacity()-was.own.Capacity())))
			p.rule, p.until = r, 0
		}
		if over > 0 {
			charges = append(charges, stint.Take{
				Key: key, Handling: &stint.Handling{Terms: r.terms, Place: p.place, OnFailure: stint.Deny}, Limit: r.store, Cost: uint32(over), Op: stint.Force, Independent: true,
			})
		}
	}
	return charges
}

// used returns the units of a part that are used, begun ones as whole.
func used(own *stint.Limit, p *share, now stint.Instant) int64 {
	return own.Capacity() - own.Test(&p.state, now, 0).Remaining
}
