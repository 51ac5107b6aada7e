package lease

import (
	"sync/atomic"
	"time"

	"stint"
)

// held is what a node holds of a key: so many units until some time. It is replaced by
// each answer of the store, so who has an old one finds it closed. All of it lies in one
// line of the processor's cache.
type held struct {
	until     Moment
	left      atomic.Int64 // units, twice, plus 1 once they were reported; below 0: closed
	limit     int64
	remaining int64 // at the store, when it answered
	answered  int64 // when that was, by the clock that nobody sets
	at        stint.Instant
	reset     int64 // when the key is as new, by the clock that nobody sets
}

// heldOf returns units that were lent with an answer of the store.
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

// spend takes units and answers, if they are here.
func (h *held) spend(cost uint32, now Moment, d *stint.Decision) bool {
	switch {
	case now.reached(h.until):
		return false
	case cost == 0:
		h.show(h.now(), now, d)
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

// show answers a take that passed, or a peek, with so many units left here. Remaining is
// an estimate: what the store had when it last answered, and what is here.
func (h *held) show(left int64, now Moment, d *stint.Decision) {
	d.At = h.at + stint.Instant(max(0, now.Mono-h.answered)/int64(time.Microsecond))
	d.Allowed, d.Degraded, d.Over = true, false, false
	d.Limit, d.Remaining = h.limit, min(h.limit, h.remaining+left)
	d.Debt, d.RetryAfter, d.Delay = 0, 0, 0
	d.ResetAfter = time.Duration(max(0, h.reset-now.Mono))
}

// giveBack undoes a spend. What was reported meanwhile, or replaced, counts as spent and
// stays so.
func (h *held) giveBack(cost uint32) {
	for {
		left := h.left.Load()
		if left < 0 || left&reported != 0 || h.left.CompareAndSwap(left, left+int64(cost)*unit) {
			return
		}
	}
}

// report returns what is left, of which nothing is given back from now on.
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

// close returns what is left, which nobody can spend any more.
func (h *held) close() int64 {
	if h == nil {
		return 0
	}
	return max(0, h.left.Swap(closed)/unit)
}

// now returns what is left.
func (h *held) now() int64 {
	if h == nil {
		return 0
	}
	return max(0, h.left.Load()/unit)
}

// quiet says that the store has nothing for a key, so nobody need ask.
type quiet struct {
	until    Moment        // then it is asked again
	cost     uint32        // what takes less asks all the same
	empty    time.Duration // from when it answered
	limit    *stint.Limit
	said     stint.Decision
	answered Moment
}

// maxQuiet is how long a node does not ask at most: nobody tells it that a key was reset.
const maxQuiet = time.Second

// refuse answers a take that cannot pass, with a RetryAfter that is no earlier than the
// store would say.
func (q *quiet) refuse(cost uint32, now Moment, d *stint.Decision) bool {
	most := q.limit.Capacity()
	if cost == 0 || cost < q.cost || int64(cost) > most/2 || now.reached(q.until) {
		return false
	}
	ago := now.since(q.answered).Truncate(time.Microsecond)
	at, reset := q.said.At.Add(ago), max(0, q.said.ResetAfter-ago)
	*d = stint.Decision{Limit: most, Remaining: min(q.said.Remaining, int64(cost)-1), RetryAfter: reset, ResetAfter: reset, At: at}
	if q.limit.Algorithm() == stint.TokenBucket {
		st := stint.State{T: int64(q.said.At.Add(q.said.ResetAfter)), Written: q.said.At}
		d.RetryAfter = max(q.empty-ago, q.said.RetryAfter-ago, q.limit.Test(&st, at, uint64(cost)).RetryAfter)
	}
	return d.RetryAfter > 0
}
