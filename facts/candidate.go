package facts

import (
	"errors"
	"sync/atomic"

	"stint/facts/sketch"
	"stint/internal/limits"
	"stint/limiter"
	"stint/rule"
)

// tried are the facts of a candidate: what it and its limit decided about the same requests, since the
// candidate is in the table.
type tried struct {
	limit     string
	now, then triedCounts
}

// triedCounts are the decisions of a limit, and the keys that it denied.
type triedCounts struct {
	allowed, denied, over, looks atomic.Uint64
	keys                         sketch.Distinct
}

func (c *triedCounts) count(a *limiter.Asked, hash uint64) {
	switch {
	case a.Cost == 0:
		c.looks.Add(1)
		return
	case a.Allowed:
		c.allowed.Add(1)
	default:
		c.denied.Add(1)
		c.keys.Add(hash)
	}
	if a.Over {
		c.over.Add(1)
	}
}

func (c *triedCounts) counts() Counts {
	return Counts{Allowed: c.allowed.Load(), Denied: c.denied.Load(), Over: c.over.Load(), Looks: c.looks.Load()}
}

// try sets the candidate of a rule. Another candidate begins with no facts.
func (r *ruleFacts) try(of *rule.Rule) {
	if of.Candidate == nil {
		r.tried.Store(nil)
		return
	}
	limit := limits.Format(of.Candidate.Limit)
	if t := r.tried.Load(); t == nil || t.limit != limit {
		r.tried.Store(&tried{limit: limit})
	}
}

// state returns the facts for the state file; nil: there is no candidate.
func (t *tried) state() *stateTried {
	if t == nil {
		return nil
	}
	s := &stateTried{Limit: t.limit, Now: t.now.counts(), Then: t.then.counts()}
	s.KeysNow, _ = t.now.keys.MarshalBinary() // it never fails
	s.KeysThen, _ = t.then.keys.MarshalBinary()
	return s
}

// restore sets the facts of the candidate from the state file. Without keys it counts denied keys anew.
func (r *ruleFacts) restore(s *stateTried, keys bool) error {
	t := &tried{limit: s.Limit}
	t.now.set(&s.Now)
	t.then.set(&s.Then)
	if keys {
		if err := errors.Join(t.now.keys.UnmarshalBinary(s.KeysNow), t.then.keys.UnmarshalBinary(s.KeysThen)); err != nil {
			return err
		}
	}
	r.tried.Store(t)
	return nil
}

func (c *triedCounts) set(n *Counts) {
	c.allowed.Store(n.Allowed)
	c.denied.Store(n.Denied)
	c.over.Store(n.Over)
	c.looks.Store(n.Looks)
}

// countCandidates counts the candidates of a decision. Those that no store decided count nothing.
func (f *Facts) countCandidates(b *board, v *limiter.Verdict) {
	for i := range v.Candidates {
		c := &v.Candidates[i]
		a, take := &v.Asked[c.Of], v.Take(c.Of)
		r := b.of(a.Rule)
		if r == nil || c.Degraded || a.Degraded || take == nil || !take.Op.Asks() {
			continue
		}
		if t := r.tried.Load(); t != nil {
			hash := f.seed.Sum(0, string(take.Key))
			t.now.count(a, hash)
			t.then.count(&c.Asked, hash)
		}
	}
}

// candidate returns the facts of the candidate of a rule, nil if it tries none.
func (r *ruleFacts) candidate() *Candidate {
	t := r.tried.Load()
	if t == nil {
		return nil
	}
	return &Candidate{
		Limit: t.limit, Now: t.now.counts(), Then: t.then.counts(),
		KeysDeniedNow: t.now.keys.Estimate(), KeysDeniedThen: t.then.keys.Estimate(),
	}
}

// addCandidate adds what another node knows of the same candidate. Nodes may deny the same keys: their number
// is at least that of the node that denied most.
func (r *Rule) addCandidate(other *Candidate) {
	switch c := r.Candidate; {
	case other == nil:
	case c == nil:
		r.Candidate = new(*other)
	case c.Limit == other.Limit:
		c.Now.add(&other.Now)
		c.Then.add(&other.Then)
		c.KeysDeniedNow = max(c.KeysDeniedNow, other.KeysDeniedNow)
		c.KeysDeniedThen = max(c.KeysDeniedThen, other.KeysDeniedThen)
	}
}
