package limiter

import (
	"slices"

	"stint"
	"stint/rule"
)

// closed is a pool that never has room: what a limit leans on while the gauge that
// it asks is too high, or stale. No store has to remember anything for it.
var closed = stint.MustLimit(stint.Spec{Requests: 0, Per: stint.MaxPer})

// stretch adds the take of an elastic limit, whose key is in v.keys, and of what it
// leans on: the pool or, with a gauge, nothing but the cap while the gauge is low.
// Whatever the gauge says, the cap is debited.
func (v *Verdict) stretch(i int, t stint.Take, how stint.Handling, entries []rule.Entry, load func(string) (float64, bool)) {
	e := v.Asked[i].Rule.Elastic
	own, on := t, t
	alone := how
	alone.Local = nil // while the store is away the own limit falls back, and borrows from nothing
	open := e.Pool != nil || low(e, load)
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
	v.leanAt(i, on, alone, entries)
	switch {
	case t.Op != stint.Ask && t.Op != stint.Force:
		// A key is given something back, or reset: the pool is everybody's.
	case e.Pool != nil:
		v.keys = append(v.keys, ruleSpace)
		var keyEnd int
		v.keys, keyEnd = e.Pool.AppendPool(v.keys, v.secret)
		on.Limit, alone.Live = e.Pool.Stored, e.Pool.Answers != nil
		v.lean(on, alone)
		v.ends[len(v.ends)-1].key = keyEnd
	case !open && t.Op == stint.Ask:
		v.keys = append(v.keys, closedSpace)
		on.Limit = closed
		v.lean(on, alone)
	}
}

// lean adds a take that the one before leans on.
func (v *Verdict) lean(t stint.Take, how stint.Handling) {
	n := 0
	for _, i := range v.taken {
		if i < 0 {
			n++
		}
	}
	v.take(^n, t, how)
}

// leanAt is lean on what stands at the place of Asked number i.
func (v *Verdict) leanAt(i int, t stint.Take, how stint.Handling, entries []rule.Entry) {
	key := len(v.keys)
	v.keys = v.Asked[i].Rule.AppendPlace(v.keys, entries)
	v.lean(t, how)
	v.ends[len(v.ends)-1].key = key
}

// low says whether the gauge of an elastic limit is fresh and low enough.
func low(e *rule.Elastic, load func(string) (float64, bool)) bool {
	if load == nil {
		return false
	}
	value, fresh := load(e.Gauge)
	return fresh && value >= 0 && value < float64(e.Below)/float64(rule.Whole)
}

// dropPools removes those limits that are the pool of another one in the same call:
// that one asks the pool's bucket, or debits it.
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

// isPool says whether another limit of the call leans on a limit.
func (v *Verdict) isPool(a *Asked) bool {
	return a.Rule != nil && slices.ContainsFunc(v.Asked, func(by Asked) bool {
		return by.Rule != nil && by.Rule.Elastic != nil && by.Rule.Elastic.Pool == a.Rule
	})
}

// answerPools answers the descriptors whose only limits are pools of others with what
// these have left. It denies nobody by itself.
func (v *Verdict) answerPools() {
	for i := range v.pools {
		p := &v.pools[i]
		result := &v.Results[p.Descriptor]
		for t, n := range v.taken {
			if n >= 0 || result.Rule != nil || v.call.Takes[t].Limit != p.Rule.Stored {
				continue
			}
			p.Decision = v.leaned[^n]
			p.Over = false
			if p.Rule.Soft > 0 {
				p.soften(false)
			}
			*result = Result{Rule: p.Rule, Decision: p.Decision}
		}
	}
}

// Leaned returns the answers of what the limit number i of Asked leans on: its cap,
// which bounds what the key takes with all that it is lent, and where room is lent by
// a rule that rule's bucket, as the store has it. None for a limit that is not
// elastic. They are those of the verdict's next decision once that is made.
func (v *Verdict) Leaned(i int) []stint.Decision {
	from := 0
	for t, n := range v.taken {
		switch {
		case n == i:
			return v.leaned[from : from+int(v.call.Takes[t].Borrows)]
		case n >= 0:
			from += int(v.call.Takes[t].Borrows)
		}
	}
	return nil
}
