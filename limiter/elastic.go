package limiter

import (
	"bytes"

	"stint"
	"stint/rule"
)

// closed is a pool that never has room: what a limit leans on while the gauge that
// it asks is too high, or stale. No store has to remember anything for it.
var closed = stint.MustLimit(stint.Spec{Requests: 0, Per: stint.MaxPer})

// stretch adds the take of an elastic limit, whose key is in v.keys, and of what it
// leans on: the pool or, with a gauge, nothing but the cap while the gauge is low.
// Whatever the gauge says, the cap is debited.
func (v *Verdict) stretch(i int, t stint.Take, entries []rule.Entry, load func(string) (float64, bool)) {
	e := v.Asked[i].Rule.Elastic
	own, on := t, t
	on.Local = nil // while the store is away the own limit falls back, and leans on nothing
	open := e.Pool != nil || low(e, load)
	if t.Op == stint.Ask {
		own.Leans = 1
		if e.Pool != nil || !open {
			own.Leans = 2
		}
	}
	v.take(i, own)
	v.keys = append(v.keys, capSpace)
	v.keys = v.Asked[i].Rule.AppendKey(v.keys, entries)
	on.Limit = e.Cap
	v.lean(on)
	switch {
	case t.Op != stint.Ask && t.Op != stint.Force:
		// A key is given something back, or reset: the pool is everybody's.
	case e.Pool != nil:
		v.keys = append(v.keys, ruleSpace)
		v.keys = e.Pool.AppendPoolKey(v.keys)
		on.Limit = e.Pool.Stored
		v.lean(on)
	case !open && t.Op == stint.Ask:
		v.keys = append(v.keys, closedSpace)
		on.Limit = closed
		v.lean(on)
	}
}

// lean adds a take that the one before leans on.
func (v *Verdict) lean(t stint.Take) {
	n := 0
	for _, i := range v.taken {
		if i < 0 {
			n++
		}
	}
	v.take(^n, t)
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
func (v *Verdict) dropPools(req *Request) {
	v.keep(func(a *Asked) bool {
		for i := range v.Asked {
			e := v.Asked[i].Rule.Elastic
			if e != nil && e.Pool == a.Rule && bytes.Equal(e.Pool.AppendPoolKey(nil), a.Rule.AppendKey(nil, req.Descriptors[a.Descriptor].Entries)) {
				return false
			}
		}
		return true
	})
}
