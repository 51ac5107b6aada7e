package lease

import (
	"sync/atomic"
	"time"

	"stint"
)

// held is the units of a key that a node may spend until a time. Each answer of the store replaces it; the
// old one is closed first. It fits into one cache line.
type held struct {
	until     Moment
	left      atomic.Int64 // twice the units, plus 1 after they were reported; below 0: closed
	limit     int64
	remaining int64 // at the store, when it answered
	answered  int64 // when it answered, by the monotonic clock
	at        stint.Instant
	reset     int64 // when the full limit is available again, by the monotonic clock
}

// heldOf returns a held of the units that an answer of the store lent.
func heldOf(units int64, until Moment, said *stint.Decision, now Moment) *held {
	h := &held{
		until: until, limit: said.Limit, remaining: said.Remaining, answered: now.Mono,
		at: said.At, reset: now.Mono + int64(said.ResetAfter),
	}
	h.left.Store(units * unit)
	return h
}

const (
	unit     = 2
	reported = 1
	closed   = -1
)

// spend takes units and answers the take; false if there are not enough.
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

// show answers a take that passed, or a peek, when left units are here. Remaining is an estimate: the
// units of the store when it last answered, and those here.
func (h *held) show(left int64, now Moment, d *stint.Decision) {
	d.At = h.at + stint.Instant(max(0, now.Mono-h.answered)/int64(time.Microsecond))
	d.Allowed, d.Degraded, d.Over = true, false, false
	d.Limit, d.Remaining = h.limit, min(h.limit, h.remaining+left)
	d.Debt, d.RetryAfter, d.Delay = 0, 0, 0
	d.ResetAfter = time.Duration(max(0, h.reset-now.Mono))
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

// report returns the unspent units and marks them as reported: from now on giveBack does nothing.
func (h *held) report() int64 {
	if h == nil {
		return 0
	}
	return max(0, h.left.Or(reported)/unit)
}

// take takes up to so many units, and returns how many.
func (h *held) take(n int64) int64 {
	for {
		left := h.left.Load()
		n = min(n, max(0, left/unit))
		if h.left.CompareAndSwap(left, left-n*unit) {
			return n
		}
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

// denial remembers that the store has no units for a key, so that the node need not ask.
type denial struct {
	until    Moment        // after that the store is asked again
	cost     uint32        // takes of a lower cost are sent to the store all the same
	empty    time.Duration // how long the store has nothing, from its answer on
	limit    *stint.Limit
	decision stint.Decision
	answered Moment
}

// maxDenial bounds how long a node does not ask: it does not learn that a key was reset.
const maxDenial = time.Second

// refuse denies a take that cannot pass. Its RetryAfter is no earlier than the store's would be.
func (q *denial) refuse(cost uint32, now Moment, d *stint.Decision) bool {
	most := q.limit.Capacity()
	if cost == 0 || cost < q.cost || int64(cost) > most/2 || now.reached(q.until) {
		return false
	}
	ago := now.since(q.answered).Truncate(time.Microsecond)
	at, reset := q.decision.At.Add(ago), max(0, q.decision.ResetAfter-ago)
	*d = stint.Decision{Limit: most, Remaining: min(q.decision.Remaining, int64(cost)-1), RetryAfter: reset, ResetAfter: reset, At: at}
	if q.limit.Algorithm() == stint.TokenBucket {
		st := stint.State{T: int64(q.decision.At.Add(q.decision.ResetAfter)), Written: q.decision.At}
		d.RetryAfter = max(q.empty-ago, q.decision.RetryAfter-ago, q.limit.Test(&st, at, uint64(cost)).RetryAfter)
	}
	return d.RetryAfter > 0
}
