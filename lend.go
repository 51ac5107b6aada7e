package stint

import (
	"slices"
	"time"
)

// A limit can lend units to nodes, which then decide without asking the store. For a token bucket
// the invariant is
//
//	tokens in the store + tokens lent and possibly unspent <= burst
//
// so the store refills only to burst minus the lent tokens. With t and charge as in the plain
// bucket, and lent the units of all loans,
//
//	used = max(t - now, lent * charge)
//
// A loan is a take of its units: t grows by them. Units that a node reports as spent leave lent,
// and refill from then on. Returned units leave lent and t, as if they had never been lent. If a
// node does not report again, its units count as spent when the store writes its loan off, which is
// after the node itself has dropped them.
//
// So in a window [s, s+T] only these tokens pass: those in the store at s, those lent at s and
// unspent, and those refilled since. That is at most burst + rate*T, on any number of nodes.
//
// In a fixed window lent units count as taken, and a loan ends with the window. If a node asks
// after that and charges nothing, the state stays that of the old window, as after any peek; but
// the store remembers the node's ask, and keeps it when that window's loans end.

// leasable is [StoreLimit.Leasable].
func (l *Limit) leasable() bool {
	s := &l.spec
	if s.Overdraw || s.Reserve || s.Step || s.CarryDebt || l.most < 2*LeasePart {
		return false
	}
	return s.Algorithm == TokenBucket || s.Algorithm == FixedWindow
}

// unlent returns the t of a bucket at now, without refilling lent units, and how many loans
// were written off by then.
func (l *Limit) unlent(st *State, now Instant) (t int64, off int) {
	t = st.T
	if st.lending == nil || !l.smooth {
		return t, 0
	}
	lent := st.lending.lent()
	for i := range st.lending.list {
		o := &st.lending.list[i]
		if o.until() > now {
			break
		}
		t = l.reserve(t, o.until(), lent)
		lent -= o.lent
		off++
	}
	return l.reserve(t, now, lent), off
}

// writeOff updates the state to now. Every change of a state with loans begins with it.
func (l *Limit) writeOff(st *State, now Instant) {
	if st.lending == nil {
		return
	}
	over := Instant(0) // when the window was over
	if l.smooth {
		st.T, _ = l.unlent(st, now)
	} else if start, _ := l.windowOf(st, int64(now)); st.N > 0 && start != st.T {
		over = Instant(l.windowEnd(st.T))
	}
	st.lending.list = slices.DeleteFunc(st.lending.list, func(o loan) bool {
		// Where nothing is lent, it is listed only while its node counts as one of those that ask.
		return o.until() <= now || o.lent == 0 && o.at.Add(active) <= now || over > 0 && (o.at < over || o.lent > 0)
	})
}

// Reset makes the state untouched, except for its loans.
func (l *Limit) Reset(st *State, now Instant) {
	l.writeOff(st, now)
	*st = State{T: st.T, N: min(st.N, st.lending.lent()), lending: st.lending}
	if st.N == 0 {
		st.T = 0
	}
}

// reportLoan is [StoreLimit.Report].
func (l *Limit) reportLoan(st *State, now Instant, a *Loan, e Epoch) {
	a.Answer(e)
	if !l.leasable() {
		return
	}
	l.enter(st, now, a, e)
	l.turn(st, now)
	l.writeOff(st, now)
	if st.lending == nil {
		return
	}
	o := st.lending.find(a.Node)
	if o == nil || a.Node == 0 || a.Seq <= o.seq || a.Epoch != e.Began && !a.KeptAfterLoss {
		return
	}
	kept := min(int64(a.Kept), o.lent)
	home := min(int64(a.Home), o.lent-kept)
	o.lent = kept
	if l.spec.Algorithm == FixedWindow {
		st.N -= min(st.N, home)
	} else {
		st.T = max(0, st.T-mulSat(home, l.charge))
	}
	l.mark(st, now)
}

// enter moves a state into an epoch.
func (l *Limit) enter(st *State, now Instant, a *Loan, e Epoch) {
	switch {
	case st.lending != nil && st.lending.epoch == e.Began:
		return
	case e.Lost && !a.KeptAfterLoss:
		l.suspect(st, now, min(e.Began, now))
	case st.lending == nil && a.Node == 0 && !e.Lost:
		return // nothing is lent, and nothing forgotten
	case st.lending == nil:
		st.lending = new(loans)
	}
	st.lending.epoch = e.Began
}

// suspect sets the state of a key that is unknown in this epoch: the key counts as used up when the
// epoch began, and units that may have been lent before count as possibly unspent. What the state
// counts beyond that stays used: the key may have been used since, by takes without a loan.
func (l *Limit) suspect(st *State, now, began Instant) {
	l.present(st, now)
	l.writeOff(st, now)
	st.lending = new(loans)
	if l.spec.Algorithm == TokenBucket {
		st.T = max(st.T, l.clock(began)+l.full)
		st.lending.put(loan{lent: l.most / LeasePart, at: began})
		l.mark(st, now)
		return
	}
	lost := State{lending: st.lending}
	l.windowAdd(&lost, int64(began), l.most)
	if l.windowUsed(&lost, int64(now)) > l.windowUsed(st, int64(now)) {
		*st = lost
	}
}

// lend is [StoreLimit.Lend].
func (l *Limit) lend(st *State, now Instant, a *Loan, cost uint64, d *Decision) {
	if !l.leasable() || a.Node == 0 || st.lending == nil {
		return
	}
	o := loan{node: a.Node}
	if known := st.lending.find(a.Node); known != nil {
		o = *known
	}
	room := l.most - l.used(st, now)
	switch {
	case a.Seq == o.seq:
		a.Grant, a.Held = o.grant, uint32(max(0, o.lent-int64(o.grant)))
	case a.Seq < o.seq:
		return
	default:
		if !d.Allowed && cost > uint64(l.most/LeasePart/2) {
			st.lending.called = now.Add(recall)
		}
		a.Held = uint32(o.lent)
		if d.Allowed {
			a.Grant = l.grant(st, now, a, room)
		}
		o.seq, o.grant, o.at, o.lent = a.Seq, a.Grant, now, o.lent+int64(a.Grant)
		if a.Grant > 0 {
			l.add(st, now, int64(a.Grant))
		}
		if st.lending.put(o); a.Grant > 0 {
			after := l.Test(st, now, 0)
			d.Remaining, d.ResetAfter = after.Remaining, after.ResetAfter
		}
	}
	a.Recall = st.lending.called > now
	a.Lease = l.lease(st, &o, now)
	short := a.Grant < a.Want && room-int64(a.Grant) < l.most/LeasePart && l.shared(st, now, a.Node)
	if short || a.Grant == 0 && a.Held == 0 && room <= 0 {
		a.Empty = l.pause(st, now, room, short)
	}
}

// shared reports whether so much of a bucket refills in a pause that it is lent in equal parts to nodes
// that would get none otherwise. If such a bucket is short, its nodes ask once in each pause, and share what
// refilled meanwhile; if they asked for each unit, nobody would get two at a time.
func (l *Limit) shared(st *State, now Instant, node uint64) bool {
	units := LeaseShare * (1 + st.lending.active(now, node))
	return l.smooth && st.lending.called <= now && units*l.charge <= l.pauses()
}

// pauses returns how long a bucket is left alone that is short, in microseconds: no more refills meanwhile
// than may be lent.
func (l *Limit) pauses() int64 { return min(LeasePause.Microseconds(), l.full/LeasePart) }

// grant returns how many units to lend: the wanted number, but at most so many that half of the
// units remain if all nodes ask for as much, and at most half of the units that may still be lent.
// If that is less than the node wants, and too few to save calls, it is the node's part of a shared
// bucket, or nothing.
func (l *Limit) grant(st *State, now Instant, a *Loan, room int64) uint32 {
	if st.lending.called > now {
		return 0
	}
	lent := st.lending.lent()
	if lost := st.lending.find(0); lost != nil {
		lent -= lost.lent
	}
	want, may, part := int64(a.Want), l.most/LeasePart-lent, room/(1+st.lending.active(now, a.Node))
	if g := min(want, may/2, part/2); g >= min(want, LeaseLeast) {
		return uint32(g)
	}
	if g := min(want, may, part); g >= min(want, LeaseShare) && l.shared(st, now, a.Node) {
		return uint32(g)
	}
	return 0
}

// lease returns how long from now a loan may be spent, by clocks that run as much too slow
// as the margin allows: no longer than its window.
func (l *Limit) lease(st *State, o *loan, now Instant) time.Duration {
	until := o.until()
	if !l.smooth {
		_, end := l.windowOf(st, int64(now))
		until = min(until, Instant(end))
	}
	return max(0, until.Sub(now)) / time.Millisecond * LeaseTime / (lifeOfLoan / time.Millisecond)
}

// pause returns for how long nobody need ask, now that there is nothing to lend: until
// there is a unit, and if a bucket is short, until enough for all nodes refilled.
func (l *Limit) pause(st *State, now Instant, room int64, short bool) time.Duration {
	retry := time.Duration(0)
	if room <= 0 {
		retry = l.Test(st, now, 1).RetryAfter
	}
	if short {
		retry = max(retry, span(l.pauses()))
	}
	if l.smooth || room <= 0 && st.lending.lent() == 0 {
		return retry
	}
	_, end := l.windowOf(st, int64(now))
	return min(LeasePause, span((end-int64(now))/16)) // some may come home
}

// lentTest is Test of a bucket of which something is lent.
func (l *Limit) lentTest(st *State, now Instant, cost uint64) Decision {
	t, off := l.unlent(st, now)
	if cost == 0 || cost <= uint64(l.most) && l.bucketFits(t, now, int64(cost)) {
		return l.bucketReport(t, now)
	}
	d := l.bucketReport(t, now)
	d.Allowed, d.RetryAfter = false, Never
	if cost <= uint64(l.most) {
		d.RetryAfter = l.lentRetry(st.lending.list[off:], t, now, int64(cost))
	}
	return d
}

// lentRetry returns how long until cost units fit if no loan is heard of again.
func (l *Limit) lentRetry(list []loan, t int64, now Instant, cost int64) time.Duration {
	lent := int64(0)
	for i := range list {
		lent += list[i].lent
	}
	for i := range list {
		ready := max(now, now.Add(l.bucketRetry(t, now, cost)))
		if lent+cost <= l.most && ready < list[i].until() {
			return ready.Sub(now)
		}
		t = l.reserve(t, list[i].until(), lent)
		lent -= list[i].lent
	}
	return l.bucketRetry(t, now, cost)
}
