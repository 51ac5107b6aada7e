// Package carry keeps what was used of a key while the numbers of its limit change.
package carry

import (
	"time"

	"stint"
)

// Record is what a store remembers of a key: a state, and the limit under whose numbers
// it was written. Its methods are those of [stint.Limit] of the same names, for a limit whose
// numbers may be others by now.
//
// While a fleet reloads its rules node by node, two sets of numbers ask for one key. So
// that nothing is forgotten meanwhile, the state stays under the numbers that it was
// written with, however often others look, until something is charged:
//
//   - What is used counts as [stint.Limit.Carry] has it, and who is denied waits until so much
//     of it is gone, as it goes under the old numbers. Neither a refusal nor a peek writes.
//   - A take that passes carries the state over, and is charged there. All that was used
//     fitted into the new limit, so nothing is cut.
//   - What is charged unasked (a forced take, a debt, a denied try that counts) carries
//     the state over as well, unless more is used than a new, lower limit holds: that is
//     not cut as long as others may hold the old numbers, and the charge is added under
//     those. It is carried once it has sunk to what the new limit holds.
//   - What is given back, settled or reported of a loan is so under the old numbers.
//
// Rounding makes it stricter only: units that have begun count as whole each time the
// state is carried. The zero Record is an untouched key. A Record belongs to one
// goroutine at a time.
type Record struct {
	State stint.State
	Limit *stint.Limit // nil: of an untouched key
}

// under says whether the state stands under the numbers of l, and makes it so where there
// is none.
func (r *Record) under(l *stint.Limit) bool {
	if r.Limit != l && (r.Limit == nil || blank(&r.State) && r.Limit.Expiry(&r.State) == 0 || r.Limit.Same(l)) {
		r.Limit = l
	}
	return r.Limit == l
}

// Test is [stint.Limit.Test].
func (r *Record) Test(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Test(&r.State, now, cost)
	}
	d, _ := r.test(l, now, cost)
	return d
}

// Take is [stint.Limit.Take].
func (r *Record) Take(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Take(&r.State, now, cost)
	}
	d, view := r.test(l, now, cost)
	spec := l.Spec()
	switch {
	case cost == 0 || l.Most() == 0:
		return d
	case blank(&view): // nothing is used: the key is an untouched one
		d = l.Take(&view, now, cost)
		r.keep(l, view)
		return d
	case d.Allowed:
		r.State, r.Limit = view, l
		if l.Algorithm() == stint.SlidingLog { // the newest entry is old enough, though what is used counts as just taken
			return l.Force(&r.State, now, cost)
		}
		return l.Take(&r.State, now, cost)
	case spec.Overdraw:
		r.charge(l, now, cost)
	case spec.CountDenied && d.RetryAfter != stint.Never:
		r.charge(l, now, cost)
		r.State.Log.KeepNewest(uint64(r.Limit.Most()))
	default:
		return d
	}
	return r.Test(l, now, cost)
}

// Force is [stint.Limit.Force].
func (r *Record) Force(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Force(&r.State, now, cost)
	}
	r.charge(l, now, cost)
	return r.Test(l, now, 0)
}

// Owe is [stint.Limit.Owe].
func (r *Record) Owe(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Owe(&r.State, now, cost)
	}
	d, view := r.test(l, now, 0)
	if cost == 0 {
		return d
	}
	if blank(&view) {
		d = l.Owe(&view, now, cost)
		r.keep(l, view)
		return d
	}
	debit := min(cost, uint64(max(0, 2*l.Most()-r.used(now))))
	r.charge(l, now, debit)
	d = r.Test(l, now, 0)
	d.Over = debit < cost
	return d
}

// Refund is [stint.Limit.Refund].
func (r *Record) Refund(l *stint.Limit, now stint.Instant, cost uint64, undo *stint.Decision) stint.Decision {
	if r.under(l) {
		return l.Refund(&r.State, now, cost, undo)
	}
	if l.Most() > 0 {
		r.Limit.Refund(&r.State, now, cost, undo)
	}
	return r.Test(l, now, 0)
}

// Settle is [stint.Limit.Settle].
func (r *Record) Settle(l *stint.Limit, now stint.Instant, cost uint64, undo *stint.Decision) stint.Decision {
	if r.under(l) {
		return l.Settle(&r.State, now, cost, undo)
	}
	if l.Most() > 0 {
		r.Limit.Settle(&r.State, now, cost, undo)
	}
	return r.Test(l, now, 0)
}

// Reset is [stint.Limit.Reset].
func (r *Record) Reset(l *stint.Limit, now stint.Instant) {
	r.under(l)
	r.Limit.Reset(&r.State, now)
}

// Apply does what a take asks for by its Op; undo is what that says of a Refund or a Settle.
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
	}
	return r.Take(l, now, cost)
}

// Report is [stint.Limit.Report]. It does nothing where the old numbers or the new cannot be lent.
func (r *Record) Report(l *stint.Limit, now stint.Instant, a *stint.Loan, e stint.Epoch) {
	if r.under(l) {
		l.Report(&r.State, now, a, e)
		return
	}
	a.Answer(e)
	if l.Leasable() {
		r.Limit.Report(&r.State, now, a, e)
	}
}

// Lend is [stint.Limit.Lend]. What is lent is charged, and carries the state over; else only
// the ask is written down.
func (r *Record) Lend(l *stint.Limit, now stint.Instant, a *stint.Loan, cost uint64, d *stint.Decision) {
	if r.under(l) {
		l.Lend(&r.State, now, a, cost, d)
		return
	}
	view := r.view(l, now)
	t, n := view.T, view.N
	l.Lend(&view, now, a, cost, d)
	switch {
	case view.T != t || view.N != n:
		r.State, r.Limit = view, l
	case l.Leasable():
		r.State.CopyLoans(&view)
	}
}

// keep makes the state that of a key of which nothing was used, after something was done
// to it, if that has left anything.
func (r *Record) keep(l *stint.Limit, st stint.State) {
	if !blank(&st) {
		r.State, r.Limit = st, l
	}
}

// used returns how many units count as taken at now, a debt whole.
func (r *Record) used(now stint.Instant) int64 {
	if r.Limit.Spec().StartFull && r.Limit.Fresh(&r.State, now) {
		return 0 // what such a key begins with was not taken
	}
	return r.Limit.Used(&r.State, now)
}

// charge charges units that nobody asks for.
func (r *Record) charge(l *stint.Limit, now stint.Instant, cost uint64) {
	if l.Most() == 0 || cost == 0 {
		return
	}
	if l.Most() > r.Limit.Most() || r.used(now) <= l.Most() {
		r.State, r.Limit = r.view(l, now), l
	}
	r.Limit.Force(&r.State, now, cost)
}

// view returns the state carried over to l. The record keeps its own.
func (r *Record) view(l *stint.Limit, now stint.Instant) (view stint.State) {
	r.State.CopyTo(&view)
	l.Carry(&view, r.Limit, now)
	return view
}

// blank says that nothing is used, whatever is lent.
func blank(st *stint.State) bool { return st.T == 0 && st.N == 0 && st.Log.Units() == 0 }

// test is Test for numbers that are not those of the state, and the state carried over.
func (r *Record) test(l *stint.Limit, now stint.Instant, cost uint64) (d stint.Decision, view stint.State) {
	view = r.view(l, now)
	if blank(&view) {
		return l.Test(&view, now, cost), view
	}
	spec := l.Spec()
	d = l.Test(&view, now, 0)
	smooth := spec.Algorithm == stint.TokenBucket && !spec.Step
	if !smooth && (spec.Algorithm != stint.FixedWindow || spec.FromFirst) { // the others tell what is used, see stint.Limit.Said
		d.ResetAfter = r.Limit.Test(&r.State, now, 0).ResetAfter
	}
	most := l.Most()
	left := most - int64(min(cost, uint64(most))) // what may be used beside
	if spec.MaxWait > 0 {
		charge := (spec.Per.Microseconds() + int64(spec.Requests) - 1) / int64(spec.Requests)
		left = min(left, spec.MaxWait.Microseconds()/charge)
	}
	free := stint.Instant(0)
	if last, ok := r.State.Log.Newest(); ok && spec.MinInterval > 0 { // it counts from the newest entry, as long as that is remembered
		free = last.Add(min(spec.MinInterval, r.Limit.Spec().Per))
		d.ResetAfter = max(0, last.Add(spec.Per).Sub(now))
	}
	switch used := min(r.used(now), r.Limit.Most(), most); {
	case cost == 0:
	case cost > uint64(most):
		d.Allowed, d.RetryAfter = false, stint.Never
	case used > left || free > now:
		d.Allowed = false
		d.RetryAfter = max(r.until(now, left), free.Sub(now))
	}
	return d, view
}

// until returns how long until no more than so many units are used, if nobody takes.
func (r *Record) until(now stint.Instant, left int64) time.Duration {
	if left >= r.Limit.Most() {
		return 0
	}
	l, spec := r.Limit, r.Limit.Spec()
	if spec.MaxWait > 0 || spec.MinInterval > 0 { // how long one may wait is no part of what is used
		spec.MaxWait, spec.MinInterval = 0, 0
		l = stint.MustLimit(spec)
	}
	return l.Test(&r.State, now, uint64(l.Most()-left)).RetryAfter
}
