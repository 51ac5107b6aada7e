package quota

import (
	"cmp"
	"slices"

	"stint"
)

// maxCharges is the number of keys in one message.
const maxCharges = 128

// Change sets the rules. It is given all of them, in their new version. It returns the requests
// to the store that must be decided after the last take under the old rules and before the first
// under the new ones. So no unit passes twice:
//
//	the limit is divided now           its shares start used up: the store may have let all pass
//	the limit is no longer divided     what was used of a share is debited at the store
//	a share gets smaller               what was used and no longer fits is debited at the store
//	a share gets larger                the added units come back with time
//
// A rule with another algorithm starts anew, as it does at the store.
func (n *Node) Change(all []*stint.Terms, now stint.Instant) []*Request {
	n.rulesMu.Lock()
	defer n.rulesMu.Unlock()
	old, next := n.rules.Load(), &ruleSet{map[*stint.Terms]*rule{}, map[name]*rule{}}
	by := map[*rule]*rule{} // from old rules to new ones
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

// emptyBefore returns the time at which an unknown share was used up, if its limit is own from
// now on.
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

// change moves the shares to the new rules, and returns the debits for the store.
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

// used returns the used units of a share, rounded up.
func used(own *stint.Limit, p *share, now stint.Instant) int64 {
	return own.Capacity() - own.Test(&p.state, now, 0).Remaining
}
