package limits

import "stint"

// Record is the stored state of a key: the state, and the limit under whose numbers it was written.
// Its methods are those of [stint.Limit] with the same names, for a limit whose numbers may have
// changed since.
//
// While a fleet reloads its rules node by node, takes of one key come under two sets of numbers.
// The new ones read the state unchanged if they can (see [stint.StoreLimit.Reads]); otherwise they
// see the result of [stint.StoreLimit.Migrate]. So that no use is lost meanwhile, the state stays
// as it was written, however often others peek, until one of these writes it under the new numbers:
//
//   - A take that passes (but not of a penalty, which it does not change), and everything that is charged without a test (a forced take, a debt, a
//     denied try that counts, units that are lent).
//   - A denied take, if it then passes strictly sooner than by waiting until enough is free under
//     the old numbers, and all use is gone no later than under those.
//
// Refunds, settlements and reports of loans change the state under the old numbers, which stay.
//
// A denied take gets the sooner of both retry times. ResetAfter is the time until all use is gone,
// by the numbers that then hold; for a peek at a steady token bucket, the sooner of both.
//
// Rounding only makes it stricter. The zero Record is an untouched key. A Record belongs to one
// goroutine at a time.
type Record struct {
	State stint.State
	Limit *stint.Limit // nil: the key is untouched
}

// under reports whether the state stands under the numbers of l. If there is no state it sets l.
func (r *Record) under(l *stint.Limit) bool {
	if r.Limit != l && (r.Limit == nil || blank(&r.State) && r.Limit.ForStores().Expiry(&r.State) == 0 || r.Limit.ForStores().Same(l)) {
		r.Limit = l
	}
	return r.Limit == l
}

// Test does what [stint.Limit.Test] does.
func (r *Record) Test(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Test(&r.State, now, cost)
	}
	return r.tested(l, now, cost).d
}

// Take does what [stint.Limit.Take] does.
func (r *Record) Take(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Take(&r.State, now, cost)
	}
	spec := l.Spec()
	if l.Capacity() > 0 && (cost <= uint64(l.Capacity()) || spec.Overdraw || spec.Algorithm == stint.Penalty) {
		r.Limit.ForStores().Correct(&r.State, now, 0)
	}
	if spec.Algorithm == stint.Penalty { // which charges nothing
		return r.Test(l, now, cost)
	}
	t := r.tested(l, now, cost)
	switch {
	case cost == 0 || l.Capacity() == 0:
		return t.d
	case blank(&t.view): // nothing is used: the key is untouched
		d := l.Take(&t.view, now, cost)
		r.keep(l, t.view)
		return d
	case t.d.Allowed, spec.Overdraw, spec.CountDenied && t.d.RetryAfter != stint.Never:
		r.State, r.Limit = t.view, l
		return l.Take(&r.State, now, cost)
	case t.writes:
		r.State, r.Limit = t.view, l
	}
	return t.d
}

// TakeAtMost does what [stint.Limit.TakeAtMost] does.
func (r *Record) TakeAtMost(l *stint.Limit, now stint.Instant, most uint64) stint.Decision {
	d := r.Test(l, now, min(most, 1))
	units := d.AtMost(most)
	d = r.Take(l, now, units)
	d.Charge(units)
	return d
}

// Force does what [stint.Limit.Force] does.
func (r *Record) Force(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Force(&r.State, now, cost)
	}
	if cost > 0 && l.Capacity() > 0 {
		r.State, r.Limit = r.view(l, now), l
		return l.Force(&r.State, now, cost)
	}
	return r.Test(l, now, 0)
}

// DebitCapped does what [stint.StoreLimit.DebitCapped] does.
func (r *Record) DebitCapped(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.ForStores().DebitCapped(&r.State, now, cost)
	}
	view := r.view(l, now)
	if cost == 0 || l.ForStores().Used(&view, now) >= 2*l.Capacity() { // the debt is at its cap
		d := r.Test(l, now, 0)
		d.Over = cost > 0 && l.Capacity() > 0
		return d
	}
	d := l.ForStores().DebitCapped(&view, now, cost)
	r.keep(l, view)
	return d
}

// Refund does what [stint.Limit.Refund] does.
func (r *Record) Refund(l *stint.Limit, now stint.Instant, cost uint64, undo *stint.Decision) stint.Decision {
	if r.under(l) {
		return l.Refund(&r.State, now, cost, undo)
	}
	if l.Capacity() > 0 {
		r.Limit.Refund(&r.State, now, cost, undo)
	}
	return r.Test(l, now, 0)
}

// Settle does what [stint.Limit.Settle] does.
func (r *Record) Settle(l *stint.Limit, now stint.Instant, cost uint64, undo *stint.Decision) stint.Decision {
	if r.under(l) {
		return l.Settle(&r.State, now, cost, undo)
	}
	if l.Capacity() > 0 {
		r.Limit.Settle(&r.State, now, cost, undo)
	}
	return r.Test(l, now, 0)
}

// Reset does what [stint.Limit.Reset] does.
func (r *Record) Reset(l *stint.Limit, now stint.Instant) {
	r.under(l)
	r.Limit.Reset(&r.State, now)
}

// Apply does the operation op; undo is the decision that a Refund or a Settle is about.
func (r *Record) Apply(op stint.Op, l *stint.Limit, now stint.Instant, cost uint64, undo *stint.Decision) stint.Decision {
	switch op {
	case stint.Force:
		return r.Force(l, now, cost)
	case stint.Refund:
		return r.Refund(l, now, cost, undo)
	case stint.Settle:
		return r.Settle(l, now, cost, undo)
	case stint.Reset:
		r.Reset(l, now)
		return r.Test(l, now, 0)
	case stint.AskAtMost:
		return r.TakeAtMost(l, now, cost)
	}
	return r.Take(l, now, cost)
}

// Report does what [stint.StoreLimit.Report] does. It does nothing if the old numbers or the new
// cannot be lent.
func (r *Record) Report(l *stint.Limit, now stint.Instant, a *stint.Loan, e stint.Epoch) {
	if r.under(l) {
		l.ForStores().Report(&r.State, now, a, e)
		return
	}
	a.Answer(e)
	if l.ForStores().Leasable() {
		r.Limit.ForStores().Report(&r.State, now, a, e)
	}
}

// Lend does what [stint.StoreLimit.Lend] does. Lent units are charged, and carry the state over to
// l; without any only the ask is stored.
func (r *Record) Lend(l *stint.Limit, now stint.Instant, a *stint.Loan, cost uint64, d *stint.Decision) {
	if r.under(l) {
		l.ForStores().Lend(&r.State, now, a, cost, d)
		return
	}
	view := r.view(l, now)
	t, n := view.T, view.N
	l.ForStores().Lend(&view, now, a, cost, d)
	switch {
	case view.T != t || view.N != n:
		r.State, r.Limit = view, l
	case l.ForStores().Leasable():
		r.State.CopyLoans(&view)
	}
}

// keep stores st under l, unless it is blank.
func (r *Record) keep(l *stint.Limit, st stint.State) {
	if !blank(&st) {
		r.State, r.Limit = st, l
	}
}

// seen returns the state as l sees it, which the caller does not change.
func (r *Record) seen(l *stint.Limit, now stint.Instant) *stint.State {
	if r.under(l) {
		return &r.State
	}
	view := r.view(l, now)
	return &view
}

// view returns the state carried over to l. The record stays unchanged.
func (r *Record) view(l *stint.Limit, now stint.Instant) (view stint.State) {
	r.State.CopyTo(&view)
	l.ForStores().Migrate(&view, r.Limit, now)
	return view
}

// blank reports whether nothing is used; units may be lent.
func blank(st *stint.State) bool { return st.T == 0 && st.N == 0 && st.Log.Units() == 0 }

// tested is the result of a take under other numbers than the state's.
type tested struct {
	d      stint.Decision
	view   stint.State // the state carried over to the take's numbers
	writes bool        // the take writes the state even if it is denied
}

// tested tests a take under other numbers than the state's.
func (r *Record) tested(l *stint.Limit, now stint.Instant, cost uint64) (t tested) {
	t.view = r.view(l, now)
	t.d = l.Test(&t.view, now, cost)
	if blank(&t.view) || l.ForStores().Reads(r.Limit) || l.Capacity() == 0 {
		return t
	}
	spec := l.Spec()
	gone, left := r.Limit.Test(&r.State, now, 0).ResetAfter, l.Test(&t.view, now, 0).ResetAfter
	looks := t.d.Allowed || t.d.RetryAfter == stint.Never
	if !looks {
		wait := l.ForStores().WaitFor(&r.State, r.Limit, now, cost)
		if t.writes = t.d.RetryAfter < wait && left <= gone; t.writes {
			return t
		}
		t.d.RetryAfter = wait
	}
	switch {
	case spec.Algorithm == stint.FixedWindow && !spec.FromFirst: // these always return the end of their window
		gone = max(gone, l.Test(new(stint.State), now, 0).ResetAfter)
	case looks && spec.Algorithm == stint.TokenBucket && !spec.Step: // these return the end of their use, see stint.StoreLimit.StateFromDecision
		gone = min(gone, left)
	}
	t.d.ResetAfter = gone
	if !looks { // a reservation may outlast the reset
		t.d.ResetAfter = max(gone, t.d.RetryAfter)
	}
	return t
}
