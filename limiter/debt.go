package limiter

import (
	"context"

	"stint"
	"stint/internal/transaction"
	"stint/rule"
)

// denyDebts denies peeks at overdrawable limits with nothing remaining, see Request.Debt. It
// reports whether one of them denies the whole call.
func (v *Verdict) denyDebts() (denies bool) {
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

// revoked reports whether take i is refunded if the call is denied. Independent takes are not, and
// takes of limits that overdraw stay charged.
func (v *Verdict) revoked(i int) bool {
	t := &v.call.Takes[i]
	if i >= len(v.taken) {
		return v.besideDebt(i)
	}
	return !t.Independent && (v.taken[i] < 0 || !t.Limit.ForStores().Overdraws())
}

// revoke refunds the revoked takes of a call that denyDebts denied. On an error of the store they
// stay charged, and the limit only refills with time.
func (l *Limiter) revoke(ctx context.Context, v *Verdict) {
	v.startAfter()
	v.charged(func(i int, _ *rule.Rule, d *stint.Decision) {
		if v.revoked(i) {
			v.addAfter(i, stint.Refund, d)
		}
	})
	v.undone = true
	if len(v.after.Takes) == 0 || transaction.DecideAfter(ctx, l.store, &v.after) != nil {
		return
	}
	for i, n := range v.taken {
		if n >= 0 && v.revoked(i) {
			v.Asked[n].showRefund()
		}
	}
}

// showRefund corrects the numbers of the decision for a refunded take.
func (a *Asked) showRefund() {
	if !a.Allowed || a.Limit == stint.NoLimit {
		return
	}
	a.Over, a.Delay = false, 0
	a.Remaining = min(a.Limit, a.Remaining+int64(a.Cost))
}
