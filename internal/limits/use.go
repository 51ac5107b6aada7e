package limits

import "stint"

// Meter is the type of stint.Handling.Meter.
type Meter = struct {
	Subject, Plan string
	Limit         string
	Of, Rollover  int64
	Grants        []Grant
}

// UseChange is what an operation changed of the use of a key.
type UseChange struct {
	Charged   uint64 // units that were admitted
	GivenBack uint64
	Start     stint.Instant // the window that was charged
	End       stint.Instant
	Used      int64 // units of the limit that count in it afterwards
}

// Metered is Apply for a take with a history, which also returns what it changed of the use.
func (r *Record) Metered(op stint.Op, l *stint.Limit, now stint.Instant, cost uint64, undo *stint.Decision) (d stint.Decision, c UseChange) {
	before := r.Used(now)
	d = r.Apply(op, l, now, cost, undo)
	switch {
	case !d.Allowed || l.Capacity() == 0:
	case op == stint.AskAtMost:
		cost = uint64(d.Charged)
		fallthrough
	case op == stint.Ask, op == stint.Force:
		c = r.Charged(l, cost, now)
	case op == stint.Refund:
		c = r.GivenBack(before, cost, now)
	}
	return d, c
}

// Used returns how many units count at now, by the numbers under which the state was written.
func (r *Record) Used(now stint.Instant) int64 {
	if r.Limit == nil {
		return 0
	}
	return r.Limit.ForStores().Used(&r.State, now)
}

// Charged returns the change of a take of a limit that was just charged.
func (r *Record) Charged(l *stint.Limit, cost uint64, now stint.Instant) (c UseChange) {
	if cost == 0 {
		return c
	}
	st := r.seen(l, now) // a debt at its cap leaves the state under its old numbers
	c.Charged, c.Used = cost, l.ForStores().Used(st, now)
	c.Start, c.End = l.ForStores().Window(st, now)
	return c
}

// GivenBack returns the change of a take that was just given back. before is Used before that: if it
// is the same nothing was given back, as the window has ended.
func (r *Record) GivenBack(before int64, cost uint64, now stint.Instant) (c UseChange) {
	if r.Used(now) < before {
		c.GivenBack = cost
	}
	return c
}

// LongestWindow returns the length of the longest window of a limit that has one from start to end.
func LongestWindow(limit *stint.Limit, start, end stint.Instant) stint.Instant {
	if limit.Spec().Calendar != stint.NoPeriod {
		end += 3 * day // the months of a year differ by so much
	}
	return end - start
}

const day = stint.Instant(24 * 3600 * 1e6)
