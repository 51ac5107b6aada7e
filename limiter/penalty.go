package limiter

import (
	"context"
	"slices"
	"time"

	"stint"
)

// This file asks penalties and counts denied tries for them.
//
// A limit with a penalty adds a take to the call: of the same values under a key of its own, at the
// place of the limit's key. If its step runs, the whole call is denied and charges nothing. A try
// that the limit itself denies is counted right after the decision. If that starts a step, the
// verdict says so already.
//
// These count nothing: looks, refunds, requests that another limit denied, and answers of a failure
// policy. A denial that came from this process's cache of denials is gathered and counted later, so
// that it costs no call of the store: as a Settle, which counts nothing if the key was reset
// meanwhile.

// penalty is the penalty of a limit in a call.
type penalty struct {
	asked int // index in Verdict.Asked
	take  int // index of its take in the call
	stint.Decision
}

// addPenalties adds takes for the penalties of the limits. They come after all others.
func (v *Verdict) addPenalties(req *Request) {
	for i := range v.Asked {
		a := &v.Asked[i]
		if a.Rule == nil || a.Rule.Penalty == nil {
			continue
		}
		d := &req.Descriptors[a.Descriptor]
		t := stint.Take{Limit: a.Rule.Penalty, Cost: 1, Op: stint.Ask, Independent: req.Each || req.Quota || a.Rule.Shadow}
		switch {
		case req.Op == stint.Reset:
			t.Op = stint.Reset
		case req.Penalties && req.Op == stint.Ask:
			t.Independent = true
		case !req.Op.Asks() || d.Refund || a.Cost == 0:
			continue
		}
		v.keys = a.Rule.AppendKeyed(append(v.keys, penaltySpace), d.Entries, v.secret)
		end := end{key: len(v.keys), how: stint.Handling{OnFailure: stint.Allow}}
		if v.keys = a.Rule.AppendPlace(v.keys, d.Entries); len(v.keys) == end.key {
			v.keys = a.Rule.AppendKeyed(append(v.keys, ruleSpace), d.Entries, v.secret) // the place of the limit is its key
		}
		end.place = len(v.keys)
		v.ends = append(v.ends, end)
		v.penalties = append(v.penalties, penalty{asked: i, take: len(v.call.Takes)})
		v.call.Takes = append(v.call.Takes, t)
	}
}

// Penalty returns the decision of the penalty of Asked number i, and whether it was asked. The
// penalty is denied while a step runs.
func (v *Verdict) Penalty(i int) (d stint.Decision, asked bool) {
	n := slices.IndexFunc(v.penalties, func(p penalty) bool { return p.asked == i })
	if n < 0 {
		return d, false
	}
	return v.penalties[n].Decision, true
}

// readPenalties reads the store's answers about penalties.
func (v *Verdict) readPenalties() {
	for i := range v.penalties {
		p := &v.penalties[i]
		p.Decision = v.call.Results[p.take]
		v.penalize(p)
	}
}

// penalize denies a limit whose penalty runs.
func (v *Verdict) penalize(p *penalty) {
	if p.Allowed || p.Degraded || v.looks {
		return
	}
	a := &v.Asked[p.asked]
	wait := p.RetryAfter
	if !a.Allowed {
		wait = max(wait, a.RetryAfter)
	}
	a.Penalized, a.Allowed, a.Over, a.Charged = true, false, false, 0
	a.Remaining, a.Delay, a.RetryAfter, a.ResetAfter = 0, 0, wait, max(wait, a.ResetAfter)
}

// waitForAll lets no penalty that denies the call wait for less than another limit that does.
func (v *Verdict) waitForAll() {
	wait := time.Duration(0)
	for i := range v.Asked {
		if a := &v.Asked[i]; !a.Allowed && !a.shadow() && !v.isQuota(a) {
			wait = max(wait, a.RetryAfter)
		}
	}
	for i := range v.Asked {
		if a := &v.Asked[i]; a.Penalized && !a.shadow() {
			a.RetryAfter, a.ResetAfter = wait, max(wait, a.ResetAfter)
		}
	}
}

// countDenied counts the tries that limits with a penalty denied.
func (l *Limiter) countDenied(ctx context.Context, v *Verdict) {
	v.after.At, v.after.Takes = v.call.At, v.after.Takes[:0]
	for i := range v.penalties {
		p := &v.penalties[i]
		t, a := &v.call.Takes[p.take], &v.Asked[p.asked]
		if !t.Op.Asks() || v.looks || a.Allowed || a.Degraded || a.Penalized {
			continue
		}
		if a.Own && l.tries.Gather(t) {
			continue
		}
		one := *t
		one.Independent = true
		if late, ok := l.tries.Take(t); ok {
			v.after.Takes = append(v.after.Takes, late)
		}
		one.Op = stint.Force
		v.after.Takes = append(v.after.Takes, one)
		one.Op = stint.Ask
		v.after.Takes = append(v.after.Takes, one)
	}
	if len(v.after.Takes) == 0 || l.store.Decide(ctx, &v.after) != nil {
		return // without the store the try is not counted
	}
	for n := range v.after.Takes {
		for i := range v.penalties {
			p := &v.penalties[i]
			if v.after.Takes[n].Op == stint.Ask && v.call.Takes[p.take].Key == v.after.Takes[n].Key {
				p.Decision = v.after.Results[n]
				v.penalize(p)
			}
		}
	}
}

// ReportTries counts the denied tries that wait to be counted, for a process that ends. They are
// also counted within a second of each denial.
func (l *Limiter) ReportTries() { l.tries.Report() }

// reportTimeout bounds a report, which no client waits for.
const reportTimeout = time.Second

// reportTries counts tries in the store.
func (l *Limiter) reportTries(call *stint.Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	return l.store.Decide(ctx, call)
}
