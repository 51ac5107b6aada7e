package limiter

import (
	"stint"
	"stint/rule"
)

// Reserved says whether the answer to the request is to be told to Limiter.Settle:
// whether a limit that counts answers let it pass. It is false again once that was
// done.
func (v *Verdict) Reserved() bool { return v.reserved }

// charged calls yield for each take that was charged: its number in the call, the
// rule, nil for what others lean on, and the decision.
func (v *Verdict) charged(yield func(i int, r *rule.Rule, d *stint.Decision)) {
	whole, leader := v.passed(), false
	for i, n := range v.taken {
		t := &v.call.Takes[i]
		if n < 0 {
			// What could not be debited in full gives nothing back.
			if d := &v.leaned[^n]; leader && !d.Over {
				yield(i, nil, d)
			}
			continue
		}
		a := &v.Asked[n]
		leader = t.Op == stint.Ask && t.Cost > 0 && a.Allowed && (t.Independent || whole)
		if leader && (t.Borrows == 0 || !a.Over) {
			yield(i, a.Rule, &a.Decision)
		}
	}
}

// turnBack makes the call that undoes the decision, and says whether anything is
// to be undone.
func (v *Verdict) turnBack() bool {
	if v.undone {
		return false
	}
	v.begin()
	v.undone = true
	v.charged(func(i int, _ *rule.Rule, d *stint.Decision) { v.end(i, stint.Refund, d) })
	return len(v.after.Takes) > 0
}

// settle makes the call that ends what is reserved, and says whether there is
// anything to do.
func (v *Verdict) settle(charges func(*rule.Answers) bool) bool {
	if !v.reserved {
		return false
	}
	v.begin()
	v.charged(func(i int, r *rule.Rule, d *stint.Decision) {
		switch {
		case r == nil || r.Answers == nil:
		case !charges(r.Answers):
			v.end(i, stint.Refund, d)
		case r.Stored.ForStores().Reserves():
			v.end(i, stint.Settle, d)
		}
	})
	return len(v.after.Takes) > 0
}

// begin empties the call of what is done after the decision.
func (v *Verdict) begin() {
	v.reserved = false
	v.after.At, v.after.Takes = v.call.At, v.after.Takes[:0]
}

// end adds to that call what becomes of a take. Each stands by itself, as the same
// key may be there twice.
func (v *Verdict) end(i int, op stint.Op, d *stint.Decision) {
	t := v.call.Takes[i]
	t.Op, t.Undo, t.Borrows, t.Independent = op, d, 0, true
	v.after.Takes = append(v.after.Takes, t)
}
