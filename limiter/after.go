package limiter

import (
	"stint"
	"stint/rule"
)

// Reserved reports whether Limiter.Settle must be called with the status of the response: a limit
// with `count: responses` reserved units for the request. After Settle it is false.
func (v *Verdict) Reserved() bool { return v.reserved }

// EachReserved calls yield for each take whose units are reserved for the response, with its rule and its decision. All
// are valid until the next decision into v.
func (v *Verdict) EachReserved(yield func(r *rule.Rule, t *stint.Take, d *stint.Decision)) {
	if !v.reserved {
		return
	}
	v.charged(func(i int, r *rule.Rule, d *stint.Decision) {
		if r != nil && r.Answers != nil {
			yield(r, &v.call.Takes[i], d)
		}
	})
}

// charged calls yield for each take that was charged, with its number in the call, its rule (nil
// for a source of another take) and its decision.
func (v *Verdict) charged(yield func(i int, r *rule.Rule, d *stint.Decision)) {
	whole, leader := v.passed(), false
	for i, n := range v.taken {
		t := &v.call.Takes[i]
		if n < 0 {
			// A source that was not debited in full (Over) is not refunded.
			if d := &v.sources[^n]; leader && !d.Over {
				yield(i, nil, d)
			}
			continue
		}
		a := &v.Asked[n]
		d := &a.Decision
		if a.Penalized { // in shadow mode the limit is charged all the same
			d = &v.call.Results[i]
		}
		leader = t.Op.Asks() && t.Cost > 0 && d.Allowed && (t.Independent || whole)
		if leader && (t.Borrows == 0 || !d.Over) {
			yield(i, a.Rule, d)
		}
	}
	v.chargedCandidates(yield)
}

// undo fills v.after with the refunds that undo the decision, and reports whether there are any.
func (v *Verdict) undo() bool {
	if v.undone {
		return false
	}
	v.startAfter()
	v.undone = true
	v.charged(func(i int, _ *rule.Rule, d *stint.Decision) { v.addAfter(i, stint.Refund, d) })
	return len(v.after.Takes) > 0
}

// settle fills v.after with the takes that end the reservations, and reports whether there are any.
func (v *Verdict) settle(charges func(*rule.Answers) bool) bool {
	if !v.reserved {
		return false
	}
	v.startAfter()
	v.charged(func(i int, r *rule.Rule, d *stint.Decision) {
		switch {
		case r == nil || r.Answers == nil:
		case !charges(r.Answers):
			v.addAfter(i, stint.Refund, d)
		case r.Stored.ForStores().Reserves():
			v.addAfter(i, stint.Settle, d)
		}
	})
	return len(v.after.Takes) > 0
}

// startAfter empties v.after, the call that follows the decision.
func (v *Verdict) startAfter() {
	v.reserved = false
	v.after.At, v.after.Takes = v.call.At, v.after.Takes[:0]
}

// addAfter adds take i to v.after with operation op. Each take is independent, as the call may
// contain a key twice.
func (v *Verdict) addAfter(i int, op stint.Op, d *stint.Decision) {
	t := v.call.Takes[i]
	t.Op, t.Cost, t.Undo, t.Borrows, t.Independent = op, t.Charged(d), d, 0, true
	v.after.Takes = append(v.after.Takes, t)
}
