package lease

import (
	"sync/atomic"
	"time"

	"stint"
)

// held holds the units of a key that a node may spend until a time. Each answer of the store
// replaces it; the old one is closed first. It fits into one cache line.
type held struct {
	until     Moment
	left      atomic.Int64 // twice the units, plus 1 after they were reported; below 0: closed
	limit     int64
	remaining int64 // at the store, at its answer
	answered  int64 // time of the answer, by the monotonic clock
	at        stint.Instant
	reset     time.Duration // until the full limit is available again, from the answer on
}

// heldOf returns the units that an answer of the store lent.
func heldOf(units int64, until Moment, said *stint.Decision, now Moment) *held {
	h := &held{
		until: until, limit: said.Limit, remaining: said.Remaining, answered: now.Mono,
		at: said.At, reset: said.ResetAfter,
	}
	h.left.Store(units * unit)
	return h
}

const (
	unit     = 2
	reported = 1
	closed   = -1
)

// spend takes units and fills in the decision. It returns false if there are not enough.
func (h *held) spend(cost uint32, now Moment, d *stint.Decision) bool {
	switch {
	case now.reached(h.until):
		return false
	case cost == 0:
		h.show(h.units(), now, d)
		return true
	}
	for {
		left := h.left.Load()
		if left < int64(cost)*unit {
			return false
		}
		if h.left.CompareAndSwap(left, left-int64(cost)*unit) {
			h.show(left/unit-int64(cost), now, d)
			return true
		}
	}
}

// show fills in the decision of a take that passed, or of a peek, with left units on this node.
// Remaining is an estimate: the units at the store when it last answered, and those on this node.
func (h *held) show(left int64, now Moment, d *stint.Decision) {
	ago := max(0, now.Mono-h.answered) / int64(time.Microsecond)
	d.At = h.at + stint.Instant(ago) // in the same whole microseconds as ResetAfter: a refund finds its window by their sum
	d.Allowed, d.Degraded, d.Over = true, false, false
	d.Limit, d.Remaining = h.limit, min(h.limit, h.remaining+left)
	d.Charged, d.Debt, d.RetryAfter, d.Delay = 0, 0, 0, 0
	d.ResetAfter = max(0, h.reset-time.Duration(ago)*time.Microsecond)
}

// giveBack undoes a spend. If the units were reported or replaced meanwhile, they stay spent.
func (h *held) giveBack(cost uint32) {
	for {
		left := h.left.Load()
		if left < 0 || left&reported != 0 || h.left.CompareAndSwap(left, left+int64(cost)*unit) {
			return
		}
	}
}

// report returns the unspent units and marks them as reported. From now on giveBack does nothing.
func (h *held) report() int64 {
	if h == nil {
		return 0
	}
	return max(0, h.left.Or(reported)/unit)
}

// take removes up to n units and returns how many.
func (h *held) take(n int64) int64 {
	for {
		left := h.left.Load()
		n = min(n, max(0, left/unit))
		if h.left.CompareAndSwap(left, left-n*unit) {
			return n
		}
	}
}

// spendAtMost takes up to most units and fills in the decision, unless there are none.
func (h *held) spendAtMost(most uint32, now Moment, d *stint.Decision) {
	if h == nil || now.reached(h.until) {
		return
	}
	if n := h.take(int64(most)); n > 0 {
		h.show(h.units(), now, d)
		d.Charge(uint64(n))
	}
}

// close returns the unspent units and makes them unspendable.
func (h *held) close() int64 {
	if h == nil {
		return 0
	}
	return max(0, h.left.Swap(closed)/unit)
}

// units returns the unspent units.
func (h *held) units() int64 {
	if h == nil {
		return 0
	}
	return max(0, h.left.Load()/unit)
}

// denial stores that the store has no units for a key, so that the node can deny without asking.
type denial struct {
	until    Moment        // the store is asked again after this
	cost     uint32        // takes of a lower cost go to the store
	empty    time.Duration // time without units at the store, from its answer on
	limit    *stint.Limit
	decision stint.Decision
	answered Moment
}

// maxDenial bounds how long a node denies without asking. Meanwhile it does not learn that a key
// was reset.
const maxDenial = time.Second

// refusable reports whether a node denies takes of a cost itself. It asks the store for those of more than half of
// the limit, which units that come back to the store may let pass.
func refusable(l *stint.Limit, cost uint32) bool { return cost > 0 && int64(cost) <= l.Capacity()/2 }

// refuse denies a take that the store would deny. Its RetryAfter is no earlier than the store's.
func (q *denial) refuse(cost uint32, now Moment, d *stint.Decision) bool {
	if cost < q.cost || !refusable(q.limit, cost) || now.reached(q.until) {
		return false
	}
	ago := now.since(q.answered).Truncate(time.Microsecond)
	at, reset := q.decision.At.Add(ago), max(0, q.decision.ResetAfter-ago)
	*d = stint.Decision{Limit: q.limit.Capacity(), Remaining: min(q.decision.Remaining, int64(cost)-1), RetryAfter: reset, ResetAfter: reset, At: at}
	if q.limit.Algorithm() == stint.TokenBucket {
		st := stint.State{T: int64(q.decision.At.Add(q.decision.ResetAfter)), Written: q.decision.At}
		d.RetryAfter = max(q.empty-ago, q.decision.RetryAfter-ago, q.limit.Test(&st, at, uint64(cost)).RetryAfter)
	}
	return d.RetryAfter > 0
}
