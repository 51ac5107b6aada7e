package limiter

import (
	"context"
	"fmt"
	"time"

	"stint"
	"stint/limiter/line"
	"stint/rule/denial"
)

// This file says what happens to the excess of limits: to requests that a limit denies, and to those
// for which others wait already.
//
// A caller that can hold or store requests sets Request.Hold. Then a request that would wait or be
// stored is not counted as denied, neither by the observer nor by penalties, before the caller calls
// Limiter.Deny. If it decides the request again instead, only the last decision counts.

// Excess returns what happens to the denied request, and the index in Asked of the limit whose excess
// it is. Of several limits that deny, drop wins over queue, and queue over wait; of several with the
// same mode the one with the longest RetryAfter wins. The excess is nil, which means drop, also for a
// request that something else than a limit denies, that no waiting helps, or that limits which
// overdraw debit all the same.
func (v *Verdict) Excess() (e *denial.Excess, asked int) {
	if v.Allowed || v.Listed != nil || v.Unmatched || v.Penalized {
		return nil, -1
	}
	return v.excess()
}

// excess is Excess for a request that limits denied.
func (v *Verdict) excess() (e *denial.Excess, asked int) {
	asked = -1
	quotas, spent := v.quotas()
	for i := range v.Asked {
		a := &v.Asked[i]
		if a.Allowed || a.shadow() || v.isQuota(a) && spent < quotas {
			continue
		}
		if a.Rule == nil || a.Rule.Excess == nil || a.Degraded || a.Penalized || a.RetryAfter == stint.Never || v.overdraws() {
			return nil, -1
		}
		if e == nil || a.Rule.Excess.Mode < e.Mode || a.Rule.Excess.Mode == e.Mode && a.RetryAfter > v.Asked[asked].RetryAfter {
			e, asked = a.Rule.Excess, i
		}
	}
	return e, asked
}

// overdraws reports whether a limit of the call debits denied takes, so that each try costs units.
func (v *Verdict) overdraws() bool {
	for i := range v.call.Takes {
		if v.call.Takes[i].Limit.ForStores().Overdraws() {
			return true
		}
	}
	return false
}

// hasExcess reports whether a limit of the call, except in shadow mode, has an excess that is not
// dropped.
func (v *Verdict) hasExcess() bool {
	for i := range v.Asked {
		if a := &v.Asked[i]; a.Rule != nil && a.Rule.Excess != nil && !a.shadow() {
			return true
		}
	}
	return false
}

// Line returns the line of Asked number i: its rule, and a hash of its key. Processes with the same
// rules and the same secret have the same lines. It is valid until the next decision into v.
func (v *Verdict) Line(i int) line.ID {
	id := line.ID{Domain: v.Domain, Rule: v.Asked[i].Rule.Name}
	from := 0
	for n, asked := range v.taken {
		if asked == i {
			copy(id.Key[:], v.secret.Hash(string(v.keys[from:v.ends[n].key])))
			break
		}
		from = v.ends[n].place
	}
	return id
}

// Place returns the request for a place in the line of Asked number i, which denied the request, or for
// which others wait.
func (v *Verdict) Place(i int, now time.Time) line.Request {
	a := &v.Asked[i]
	e := a.Rule.Excess
	lot, every, sharp := a.Rule.Refill()
	r := line.Request{ID: v.Line(i), Cost: a.Cost, Settings: line.Settings{
		MaxWait: e.MaxWait, Places: e.Places, PerKey: e.PlacesPerKey, Rate: line.Rate{Lot: lot, Every: every, Sharp: sharp},
	}}
	if !v.Held {
		r.RoomAt = now.Add(a.RetryAfter)
	}
	return r
}

// hold lets the caller hold the request before its limits are asked, and reports whether it wants to.
// The request is then pending, unless a limit whose mode comes before that of the caller, or a penalty,
// would deny it now: that decides.
func (v *Verdict) hold(ctx context.Context, req *Request, store stint.Store) (wanted bool, err error) {
	if req.Hold == nil || !takes(req) || !v.hasExcess() || v.overdraws() {
		return false, nil
	}
	mode := req.Hold(v)
	if mode == denial.Drop {
		return false, nil
	}
	v.bindKeys()
	v.startAfter()
	for i, n := range v.taken {
		if n < 0 || v.Asked[n].shadow() || v.Asked[n].Rule != nil && denial.ModeOf(v.Asked[n].Rule.Excess) >= mode {
			continue
		}
		look := v.call.Takes[i]
		look.Cost, look.Borrows, look.Independent = 0, 0, true
		v.after.Takes = append(v.after.Takes, look)
	}
	looks := len(v.after.Takes)
	for i := range v.penalties {
		step := v.call.Takes[v.penalties[i].take]
		step.Independent = true
		v.after.Takes = append(v.after.Takes, step)
	}
	if len(v.after.Takes) > 0 {
		if err := store.Decide(ctx, &v.after); err != nil {
			return true, fmt.Errorf("looking at %d limits of domain %q: %w", len(v.after.Takes), v.Domain, err)
		}
	}
	for i := range v.after.Takes {
		t, d := &v.after.Takes[i], &v.after.Results[i]
		if !d.Allowed || d.Degraded || i < looks && d.Remaining < int64(v.costOf(t)) {
			return true, nil
		}
	}
	v.Pending, v.Held = true, true
	v.undone = true // nothing was taken
	return true, nil
}

// holdBack gives back what a request took that would overtake others.
func (l *Limiter) holdBack(ctx context.Context, v *Verdict) {
	if l.Undo(ctx, v) == nil {
		v.Pending, v.Held = true, true
	}
}

// costOf returns the cost of the take of which t is a look.
func (v *Verdict) costOf(t *stint.Take) uint32 {
	for i := range v.taken {
		if v.call.Takes[i].Key == t.Key && v.call.Takes[i].Limit == t.Limit {
			return v.call.Takes[i].Cost
		}
	}
	return 0
}

// Deny ends a pending request: it counts as denied by Asked number i, whose excess found no place, was
// stored, or is dropped after all. The reason is ReasonExcessFull, ReasonQueued, or "" for the last.
// retryAfter replaces the time of the limit; 0 keeps it. Penalties count the request unless it is
// stored, and one of them may deny it now.
func (l *Limiter) Deny(ctx context.Context, v *Verdict, i int, why Reason, retryAfter time.Duration) {
	denied := &v.Asked[i]
	if v.Held {
		for n := range v.Asked {
			if n != i {
				v.Asked[n].Cost = 0 // it was not asked
			}
		}
		denied.Decision = stint.Decision{Limit: denied.Rule.Limit.Capacity(), At: stint.At(time.Now())}
	}
	if retryAfter > 0 {
		denied.RetryAfter = retryAfter
		denied.ResetAfter = max(denied.ResetAfter, retryAfter)
	}
	v.Pending, v.ended = false, why
	l.endCandidates(ctx, v, why == ReasonQueued)
	if len(v.penalties) > 0 && why != ReasonQueued {
		l.countDenied(ctx, v)
		v.waitForAll()
	}
	v.conclude()
	l.end(v, time.Time{}, nil)
}
