// Package migrate keeps what was used of a key while the numbers of its limit change.
package migrate

import "stint"

// Record is what a store remembers of a key: a state, and the limit under whose numbers
// it was written. Its methods are those of [stint.Limit] of the same names, for a limit whose
// numbers may be others by now.
//
// While a fleet reloads its rules node by node, two sets of numbers ask for one key. The new
// ones read the state as it stands where they can (see [stint.StoreLimit.Reads]); else they see what
// [stint.StoreLimit.Migrate] makes of it. So that nothing is forgotten meanwhile, the state stays as it
// was written, however often others look, until one of these writes it anew:
//
//   - A take that passes, and whatever is charged unasked (a forced take, a debt, a denied try
//     that counts, units that are lent).
//   - A denied take, if it so passes strictly sooner than by waiting until enough is gone under
//     the old numbers, and all that was used is gone no later than under those.
//   - What is given back, settled or reported of a loan is so under the old numbers, which stay.
//
// Who is denied waits for the sooner of both ways. ResetAfter is how long until all is gone, by
// the numbers that then hold; of a look at a steady token bucket the sooner of both.
//
// Rounding makes it stricter only. The zero Record is an untouched key. A Record belongs to one
// goroutine at a time.
type Record struct {
	State stint.State
	Limit *stint.Limit // nil: of an untouched key
}

// under says whether the state stands under the numbers of l, and makes it so where there
// is none.
func (r *Record) under(l *stint.Limit) bool {
	if r.Limit != l && (r.Limit == nil || blank(&r.State) && r.Limit.ForStores().Expiry(&r.State) == 0 || r.Limit.ForStores().Same(l)) {
		r.Limit = l
	}
	return r.Limit == l
}

// Test is [stint.Limit.Test].
func (r *Record) Test(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Test(&r.State, now, cost)
	}
	return r.tested(l, now, cost).d
}

// Take is [stint.Limit.Take].
func (r *Record) Take(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.Take(&r.State, now, cost)
	}
	spec := l.Spec()
	if l.Capacity() > 0 && (cost <= uint64(l.Capacity()) || spec.Overdraw) {
		r.Limit.ForStores().Correct(&r.State, now, 0)
	}
	t := r.tested(l, now, cost)
	switch {
	case cost == 0 || l.Capacity() == 0:
		return t.d
	case blank(&t.view): // nothing is used: the key is an untouched one
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

// Force is [stint.Limit.Force].
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

// DebitCapped is [stint.StoreLimit.DebitCapped].
func (r *Record) DebitCapped(l *stint.Limit, now stint.Instant, cost uint64) stint.Decision {
	if r.under(l) {
		return l.ForStores().DebitCapped(&r.State, now, cost)
	}
	view := r.view(l, now)
	if cost == 0 || l.ForStores().Used(&view, now) >= 2*l.Capacity() { // there is no more to owe
		d := r.Test(l, now, 0)
		d.Over = cost > 0 && l.Capacity() > 0
		return d
	}
	d := l.ForStores().DebitCapped(&view, now, cost)
	r.keep(l, view)
	return d
}

// Refund is [stint.Limit.Refund].
func (r *Record) Refund(l *stint.Limit, now stint.Instant, cost uint64, undo *stint.Decision) stint.Decision {
	if r.under(l) {
		return l.Refund(&r.State, now, cost, undo)
	}
	if l.Capacity() > 0 {
		r.Limit.Refund(&r.State, now, cost, undo)
	}
	return r.Test(l, now, 0)
}

// Settle is [stint.Limit.Settle].
func (r *Record) Settle(l *stint.Limit, now stint.Instant, cost uint64, undo *stint.Decision) stint.Decision {
	if r.under(l) {
		return l.Settle(&r.State, now, cost, undo)
	}
	if l.Capacity() > 0 {
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

// Report is [stint.StoreLimit.Report]. It does nothing where the old numbers or the new cannot be lent.
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

// Lend is [stint.StoreLimit.Lend]. What is lent is charged, and carries the state over; else only
// the ask is written down.
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

// keep makes the state that of a key of which nothing was used, after something was done
// to it, if that has left anything.
func (r *Record) keep(l *stint.Limit, st stint.State) {
	if !blank(&st) {
		r.State, r.Limit = st, l
	}
}

// view returns the state carried over to l. The record keeps its own.
func (r *Record) view(l *stint.Limit, now stint.Instant) (view stint.State) {
	r.State.CopyTo(&view)
	l.ForStores().Migrate(&view, r.Limit, now)
	return view
}

// blank says that nothing is used, whatever is lent.
func blank(st *stint.State) bool { return st.T == 0 && st.N == 0 && st.Log.Units() == 0 }

// tested is what comes of a take under numbers that are not those of the state.
type tested struct {
	d      stint.Decision
	view   stint.State // as the state counts under them
	writes bool        // though it is denied
}

// tested answers what a take does under numbers that are not those of the state.
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
	case spec.Algorithm == stint.FixedWindow && !spec.FromFirst: // which always tells its own end
		gone = max(gone, l.Test(new(stint.State), now, 0).ResetAfter)
	case looks && spec.Algorithm == stint.TokenBucket && !spec.Step: // which tells what is used, see stint.Limit.Said
		gone = min(gone, left)
	}
	t.d.ResetAfter = gone
	if !looks { // what is reserved may outlast the reset
		t.d.ResetAfter = max(gone, t.d.RetryAfter)
	}
	return t
}
