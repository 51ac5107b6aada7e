package limiter

import (
	"slices"

	"stint"
	"stint/rule"
)

// closed is a limit that never has room. It is the source of an elastic limit while its gauge is
// too high or stale. A store needs no state for it.
var closed = stint.MustLimit(stint.Spec{Requests: 0, Per: stint.MaxPer})

// takeElastic adds the take of an elastic limit, whose key is in v.keys, and its sources: always
// the cap, then the pool. With a gauge there is no pool, and the second source is closed unless the
// gauge is low. The cap is debited whatever the gauge shows.
func (v *Verdict) takeElastic(i int, t stint.Take, how stint.Handling, entries []rule.Entry, load func(string) (float64, bool)) {
	e := v.Asked[i].Rule.Elastic
	own, on := t, t
	alone := how
	alone.Local = nil // while the store is away the own limit uses its failure policy; the sources have no local share
	open := e.Pool != nil || e.Low(load)
	if t.Op == stint.Ask {
		own.Borrows = 1
		if e.Pool != nil || !open {
			own.Borrows = 2
		}
	}
	v.takeAt(i, own, how, entries)
	v.keys = append(v.keys, capSpace)
	v.keys = v.Asked[i].Rule.AppendKeyed(v.keys, entries, v.secret)
	on.Limit = e.Cap
	v.addSourceAt(i, on, alone, entries)
	switch {
	case t.Op != stint.Ask && t.Op != stint.Force:
		// Refunds and resets leave out the pool, because everybody shares it.
	case e.Pool != nil:
		v.keys = append(v.keys, ruleSpace)
		var keyEnd int
		v.keys, keyEnd = e.Pool.AppendPool(v.keys, v.secret)
		on.Limit, alone.Live = e.Pool.Stored, e.Pool.Answers != nil
		v.addSource(on, alone)
		v.ends[len(v.ends)-1].key = keyEnd
	case !open && t.Op == stint.Ask:
		v.keys = append(v.keys, closedSpace)
		on.Limit = closed
		v.addSource(on, alone)
	}
}

// addSource adds a take that is a source of the take before.
func (v *Verdict) addSource(t stint.Take, how stint.Handling) {
	n := 0
	for _, i := range v.taken {
		if i < 0 {
			n++
		}
	}
	v.take(^n, t, how)
}

// addSourceAt is addSource with the place of Asked number i.
func (v *Verdict) addSourceAt(i int, t stint.Take, how stint.Handling, entries []rule.Entry) {
	key := len(v.keys)
	v.keys = v.Asked[i].Rule.AppendPlace(v.keys, entries)
	v.addSource(t, how)
	v.ends[len(v.ends)-1].key = key
}

// dropPools removes each limit that is the pool of another limit in the same call, because the
// other limit already asks or debits the pool's bucket.
func (v *Verdict) dropPools() {
	for i := range v.Asked {
		if v.isPool(&v.Asked[i]) {
			v.pools = append(v.pools, v.Asked[i])
		}
	}
	if len(v.pools) == 0 {
		return
	}
	v.Asked = slices.DeleteFunc(v.Asked, func(a Asked) bool {
		return slices.ContainsFunc(v.pools, func(p Asked) bool { return p.Rule == a.Rule && p.Descriptor == a.Descriptor })
	})
}

// isPool reports whether a is the pool of another limit of the call.
func (v *Verdict) isPool(a *Asked) bool {
	return a.Rule != nil && slices.ContainsFunc(v.Asked, func(by Asked) bool {
		return by.Rule != nil && by.Rule.Elastic != nil && by.Rule.Elastic.Pool == a.Rule
	})
}

// answerPools answers each descriptor whose only limit was dropped by dropPools, with the pool's
// remaining units. Such a limit denies nobody by itself.
func (v *Verdict) answerPools() {
	for i := range v.pools {
		p := &v.pools[i]
		result := &v.Results[p.Descriptor]
		for t, n := range v.taken {
			if n >= 0 || result.Rule != nil || v.call.Takes[t].Limit != p.Rule.Stored {
				continue
			}
			p.Decision = v.sources[^n]
			p.Over = false
			if p.Rule.Soft > 0 {
				p.soften(false)
			}
			*result = Result{Rule: p.Rule, Decision: p.Decision}
		}
	}
}

// Sources returns the decisions of the sources of Asked number i: its cap, which bounds all units
// that the key takes, borrowed ones included, and for a rule that borrows from a pool, the pool's
// bucket. It returns none for a limit that is not elastic. The result is valid until the next
// decision into v.
func (v *Verdict) Sources(i int) []stint.Decision {
	from := 0
	for t, n := range v.taken {
		switch {
		case n == i:
			return v.sources[from : from+int(v.call.Takes[t].Borrows)]
		case n >= 0:
			from += int(v.call.Takes[t].Borrows)
		}
	}
	return nil
}
