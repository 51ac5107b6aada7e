package transaction

import (
	"context"

	"stint"
	"stint/internal/limits"
)

// DeniedCost returns the cost for which a store denies a take: 1 for an AskAtMost.
func DeniedCost(t *stint.Take) uint32 {
	if t.Op == stint.AskAtMost {
		return min(t.Cost, 1)
	}
	return t.Cost
}

// asksAtMost reports whether a take is an AskAtMost that its call decides as one with others.
func asksAtMost(t *stint.Take) bool { return t.Op == stint.AskAtMost && t.Cost > 0 && !t.Independent }

// Most returns the smallest cost of the AskAtMost takes of a call that are not Independent.
func Most(call *stint.Call) (cost uint32) {
	cost = stint.MaxCost
	for i := range call.Takes {
		if t := &call.Takes[i]; asksAtMost(t) {
			cost = min(cost, t.Cost)
		}
	}
	return cost
}

// ChargedAtMost returns how many units the AskAtMost takes of a call that are not Independent were
// charged: the fewest of all; 0 if there are none or the call is denied.
func ChargedAtMost(call *stint.Call) (units uint32) {
	if Denied(call) {
		return 0
	}
	for i := range call.Takes {
		if n := call.Results[i].Charged; asksAtMost(&call.Takes[i]) && (units == 0 || n < units) {
			units = n
		}
	}
	return units
}

// SetCharged sets Charged of all AskAtMost takes of a call that are not Independent.
func SetCharged(call *stint.Call, units uint32) {
	for i := range call.Takes {
		if asksAtMost(&call.Takes[i]) {
			call.Results[i].Charged = units
		}
	}
}

// BoundAtMost lets the AskAtMost takes of a call that are not Independent ask for at most that many
// units.
func BoundAtMost(call *stint.Call, units uint32) {
	for i := range call.Takes {
		if t := &call.Takes[i]; asksAtMost(t) {
			t.Cost = min(t.Cost, units)
		}
	}
}

// Trim reduces what the AskAtMost takes of a call that are not Independent were charged to a number of
// units: it gives the rest back to the store by, and corrects the results. charged returns a take as
// that store charged it, or false if the store did not charge it.
func Trim(ctx context.Context, by stint.Store, call *stint.Call, units uint32, charged func(*stint.Take) (stint.Take, bool)) error {
	back, of := stint.Call{At: call.At}, []int(nil)
	for i := range call.Takes {
		d := &call.Results[i]
		if !asksAtMost(&call.Takes[i]) || d.Charged <= units {
			continue
		}
		if t, ok := charged(&call.Takes[i]); ok && t.Limit.Algorithm() != stint.Unlimited {
			back.Takes, of = append(back.Takes, Refund(t, uint64(d.Charged-units), d)), append(of, i)
		}
	}
	if len(of) == 0 {
		return nil
	}
	ctx, cancel := UndoContext(ctx)
	defer cancel()
	if err := by.Decide(ctx, &back); err != nil {
		return WithoutTakes(err)
	}
	for n, i := range of { // the time stays that of the take, so that it can be undone
		d, after := &call.Results[i], &back.Results[n]
		d.Remaining, d.ResetAfter, d.Spent = after.Remaining, after.At.Add(after.ResetAfter).Sub(d.At), limits.SpentPart(d.Spent, 0, uint64(units))
	}
	return nil
}
