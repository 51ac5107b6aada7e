package stint

import "time"

// MaxReservation is how long a reservation waits to be settled or given back. After that it
// counts as settled, because its owner is probably gone: it stays charged, and the bucket refills
// as after any other take.
const MaxReservation = 10 * time.Minute

// With Spec.Reserve the takes of a token bucket are reservations. Let
//
//	reserved    be the units of all takes that are neither settled nor given back
//	used        = max(t - clock(now), reserved * charge)
//
// with t as in the plain bucket, so that it refills only to burst minus the reserved units. A
// take that is given back lowers both by its units. The bucket is then as if the take had never
// been made: without the take the other reservations would have been the same, and the bucket
// would have had exactly these units more. A take that is settled lowers only reserved, and the
// bucket refills its units from then on.
//
// The Log of the state holds the reservations, oldest first, by the time of their takes. Time
// never runs back before the newest one.

// reserve returns t at a time until which some units could not be refilled.
func (l *Limit) reserve(t int64, at Instant, units int64) int64 {
	return max(t, l.clock(at)+mulSat(units, l.charge))
}

// reservedAt returns the bucket at now: its t, with the reserved units not refilled, and the time up to
// which reservations are too old. Reservations that are too old count as settled when they became
// so.
func (l *Limit) reservedAt(st *State, now Instant) (t, old int64) {
	t, old = st.T, int64(now)-MaxReservation.Microseconds()
	if st.Log.empty() {
		return t, old
	}
	reserved := int64(st.Log.total)
	st.Log.each(func(e entry) bool {
		if e.at > old {
			return false
		}
		t = l.reserve(t, Instant(e.at).Add(MaxReservation), reserved)
		reserved -= int64(e.n)
		return true
	})
	return l.reserve(t, now, reserved), old
}

// reservedTime returns the time at which to decide a take that comes at now.
func (st *State) reservedTime(now Instant) Instant {
	if st.Log.empty() {
		return now
	}
	return max(now, Instant(st.Log.tail.at))
}

// reservedTidy brings the state to now. Each change of the state starts with it.
func (l *Limit) reservedTidy(st *State, now Instant) {
	t, old := l.reservedAt(st, now)
	st.T = t
	if !st.Log.empty() {
		st.Log.prune(old)
	}
}

// reservedExpiry returns the clock value at which the bucket is full if no reservation is settled.
func (l *Limit) reservedExpiry(st *State) int64 {
	if st.Log.empty() {
		return st.T
	}
	t, _ := l.reservedAt(st, Instant(st.Log.tail.at).Add(MaxReservation))
	return t
}

// reservedTest is Test for a bucket with reservations.
func (l *Limit) reservedTest(st *State, now Instant, cost uint64) Decision {
	at := st.reservedTime(now)
	t, _ := l.reservedAt(st, at)
	if cost == 0 || cost <= uint64(l.most) && l.bucketFits(t, at, int64(cost)) {
		return l.reservedReport(st, now)
	}
	return l.reservedDeny(st, now, cost)
}

// reservedReport returns an allowing decision. It treats reservations as settled now, because nobody
// knows when they will be.
func (l *Limit) reservedReport(st *State, now Instant) Decision {
	at := st.reservedTime(now)
	t, _ := l.reservedAt(st, at)
	d := l.bucketReport(t, at)
	if d.ResetAfter > 0 {
		d.ResetAfter += at.Sub(now)
	}
	return d
}

// reservedDeny returns a denial. Its RetryAfter assumes that no reservation is ever settled or given
// back, because nobody knows when. ResetAfter is never shorter.
func (l *Limit) reservedDeny(st *State, now Instant, cost uint64) Decision {
	at := st.reservedTime(now)
	d := l.reservedReport(st, now)
	d.Allowed, d.RetryAfter = false, Never
	if cost <= uint64(l.most) {
		d.RetryAfter = l.reservedRetry(st, at, int64(cost)) + at.Sub(now)
		d.ResetAfter = max(d.ResetAfter, d.RetryAfter)
	}
	return d
}

// reservedRetry returns the time until cost units fit if no reservation is settled or given back. The
// cost is at most l.most. The oldest reservations must become too old first, until the cost fits
// beside the others.
func (l *Limit) reservedRetry(st *State, now Instant, cost int64) time.Duration {
	t, old := l.reservedAt(st, now)
	if !st.Log.empty() {
		reserved := int64(st.Log.total)
		st.Log.each(func(e entry) bool {
			if e.at > old {
				if reserved+cost <= l.most {
					return false
				}
				t = l.reserve(t, Instant(e.at).Add(MaxReservation), reserved)
			}
			reserved -= int64(e.n)
			return true
		})
	}
	return l.bucketRetry(t, now, cost)
}

// free ends the reservation of the take with decision undo. It returns how many of the cost units
// were still reserved.
func (l *Limit) free(st *State, now Instant, cost uint64, undo *Decision) int64 {
	l.reservedTidy(st, st.reservedTime(now))
	if st.Log.empty() {
		return 0
	}
	before := st.Log.total
	st.Log.remove(int64(undo.At), cost, false)
	return int64(before - st.Log.total)
}

// Settle ends the reservation of cost units by the take with decision undo. The units stay
// charged, and the bucket refills as after any other take. It does nothing if the limit does not
// reserve (see [Spec].Reserve) or the reservation has ended. A penalty counts cost denied tries
// instead, unless its key is untouched. Takes of one key in the same
// microsecond are one reservation of their sum, so settle or give back each take only once.
func (l *Limit) Settle(st *State, now Instant, cost uint64, undo *Decision) Decision {
	if l.spec.Algorithm == Penalty && cost > 0 && !l.Untouched(st, now) {
		l.add(st, now, units(cost))
	}
	if l.spec.Reserve && l.most > 0 && cost > 0 && undo != nil {
		l.turn(st, now)
		l.free(st, now, cost, undo)
		l.mark(st, now)
	}
	return l.Test(st, now, 0)
}

// giveBackReserved gives back the reservation of the take with decision undo. If undo is nil, it lowers
// what is used now, the newest reservations last.
func (l *Limit) giveBackReserved(st *State, now Instant, cost int64, undo *Decision) {
	if undo != nil {
		freed := l.free(st, now, uint64(cost), undo)
		st.T = max(0, st.T-mulSat(freed, l.charge))
		return
	}
	at := st.reservedTime(now)
	l.reservedTidy(st, at)
	st.T = max(0, st.T-mulSat(cost, l.charge))
	if left := max(0, st.T-l.clock(at)) / l.charge; !st.Log.empty() && int64(st.Log.total) > left {
		st.Log.remove(0, st.Log.total-uint64(left), true)
	}
}

// debitCapped implements [StoreLimit.DebitCapped].
func (l *Limit) debitCapped(st *State, now Instant, cost uint64) Decision {
	if l.spec.Algorithm == Unlimited || l.most == 0 || cost == 0 {
		return l.Test(st, now, 0)
	}
	room := max(0, 2*l.most-l.used(st, now))
	debit := min(units(cost), room)
	if debit > 0 {
		l.add(st, now, debit)
	}
	d := l.Test(st, now, 0)
	d.Over = uint64(debit) < cost
	return d
}
