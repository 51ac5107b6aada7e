package limiter

import (
	"context"

	"stint"
	"stint/rule"
)

// owing makes refusals of peeks at limits that overdraw and have nothing left, see
// Request.Debt, and says whether one of them denies what is all or none.
func (v *Verdict) owing() (denies bool) {
	for i, n := range v.taken {
		t := &v.call.Takes[i]
		if n < 0 || t.Op != stint.Ask || t.Cost > 0 {
			continue
		}
		a := &v.Asked[n]
		if a.Remaining > 0 || a.Limit <= 0 || a.Degraded || a.tallied || !t.Limit.ForStores().Overdraws() {
			continue
		}
		a.Allowed, a.RetryAfter = false, a.ResetAfter
		denies = denies || !t.Independent
	}
	return denies
}

// falls says whether take number i is undone where the call is denied: not where it stands
// by itself, nor where it overdraws, which is charged all the same.
func (v *Verdict) falls(i int) bool {
	t := &v.call.Takes[i]
	return !t.Independent && (v.taken[i] < 0 || !t.Limit.ForStores().Overdraws())
}

// turnDown gives back what a call took that stands or falls together, because it
// falls. Where that fails it stays charged, and only refills later.
func (l *Limiter) turnDown(ctx context.Context, v *Verdict) {
	v.begin()
	v.charged(func(i int, _ *rule.Rule, d *stint.Decision) {
		if v.falls(i) {
			v.end(i, stint.Refund, d)
		}
	})
	v.undone = true
	if len(v.after.Takes) == 0 || l.store.Decide(ctx, &v.after) != nil {
		return
	}
	for i, n := range v.taken {
		if n >= 0 && v.falls(i) {
			v.Asked[n].untake()
		}
	}
}

// untake shows what was taken as left.
func (a *Asked) untake() {
	if !a.Allowed || a.Limit == stint.NoLimit {
		return
	}
	a.Over, a.Delay = false, 0
	a.Remaining = min(a.Limit, a.Remaining+int64(a.Cost))
}
