// Package together decides takes of one call that stand or fall together, on records that
// the caller holds.
package together

import (
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/migrate"
)

// Whole is the group of all takes of a call that are not apart.
const Whole = -1

// Work is a group of takes being decided, of keys that the caller names by a K: Collect, then
// the caller sets the Record and At of all Parts, then Decide, then the caller keeps the
// records, then Answer. It may be used again. The zero Work is ready with its Name.
type Work[K comparable] struct {
	// Name returns what the caller knows the key of a take by. Takes of one name are one part.
	Name func(*stint.Take) K

	Parts []Part[K]
	of    []int // the part of each take; -1 for takes of another group
	leans []lean
}

// Part is one key of a group. Takes of the same key are one part with the sum of their costs.
type Part[K comparable] struct {
	Name   K
	Take   *stint.Take // the first of the key
	Cost   uint64      // of all of them, but for what others ask of it that lean on it
	Record migrate.Record
	At     stint.Instant // to decide it at
	Result stint.Decision

	// Loan is what a node has to tell that may hold units of the key; nil: nothing. The caller
	// has read it (see [migrate.Record.Report]); Decide lends.
	Loan *stint.Loan

	asked  bool   // by a take that leans on nothing and is not leaned on
	leaned bool   // by another part
	owed   uint64 // debited unasked, see stint.Take.Borrows
}

// lean says that one part leans on another with so many units.
type lean struct {
	part, on int
	cost     uint64
}

// Charges says whether the part may change an untouched key.
func (p *Part[K]) Charges() bool {
	if p.leaned || p.Take.Op == stint.Force {
		return true
	}
	l := p.Take.Limit
	return p.Take.Op == stint.Ask && p.Cost > 0 && (p.Cost <= uint64(l.Capacity()) || l.Spec().Overdraw)
}

// Debits returns how many units a part may be charged, and whether it may be so where they do
// not fit.
func (w *Work[K]) Debits(part int) (units uint64, unasked bool) {
	p := &w.Parts[part]
	if p.Take.Op != stint.Ask && p.Take.Op != stint.Force {
		return 0, false
	}
	units = p.Cost
	for i := range w.leans {
		if w.leans[i].on == part {
			units += w.leans[i].cost
		}
	}
	return units, p.leaned || p.Take.Op == stint.Force || p.Take.Limit.Overdraws()
}

// Collect makes parts of the takes of a group: Whole, or the take of a number with those it
// leans on.
func (w *Work[K]) Collect(c *stint.Call, group int) error {
	w.Parts, w.of, w.leans = w.Parts[:0], w.of[:0], w.leans[:0]
	leader, last := -1, -1 // who leans on the takes up to last
	for i := range c.Takes {
		t := &c.Takes[i]
		in := !t.Independent
		if group != Whole {
			in = i >= group && i <= group+int(c.Takes[group].Borrows)
		}
		if !in {
			w.of = append(w.of, -1)
			continue
		}
		leaned := i <= last
		n, ok := w.part(t, leaned)
		if !ok {
			clear(w.Parts)
			return fmt.Errorf("take %d: %w", i, stint.ErrMixedLimits)
		}
		w.of = append(w.of, n)
		if leaned {
			w.leans = append(w.leans, lean{part: leader, on: n, cost: uint64(t.Cost)})
		} else if t.Borrows > 0 {
			leader, last = n, i+int(t.Borrows)
		}
	}
	return nil
}

// part returns the number of the part of a take's key.
func (w *Work[K]) part(t *stint.Take, leaned bool) (int, bool) {
	n, name := 0, w.Name(t)
	for n < len(w.Parts) && w.Parts[n].Name != name {
		n++
	}
	if n == len(w.Parts) {
		w.Parts = slices.Grow(w.Parts, 1)[:n+1] // what was there is cleared
		w.Parts[n].Name, w.Parts[n].Take = name, t
	} else if !w.Parts[n].joins(t) {
		return 0, false
	}
	p := &w.Parts[n]
	if leaned {
		p.leaned = true // what it is asked for is seen when the others are
		return n, true
	}
	p.asked = p.asked || t.Borrows == 0
	p.Cost += uint64(t.Cost)
	return n, true
}

// Of returns the number of the part of a take, -1 for a take of another group.
func (w *Work[K]) Of(take int) int { return w.of[take] }

// joins says whether another take of the same key may stand in the same call.
func (p *Part[K]) joins(t *stint.Take) bool {
	return p.Take.Op == stint.Ask && t.Op == stint.Ask && p.Take.Borrows == t.Borrows && p.Take.Limit.Same(t.Limit)
}

// Decide answers all parts: everything is done, or nothing. It says whether it was done;
// limits that overdraw or count denied tries charge those all the same.
func (w *Work[K]) Decide() bool {
	for i := range w.Parts {
		if p := &w.Parts[i]; p.Take.Op == stint.Ask {
			p.Result = p.Record.Test(p.Take.Limit, p.At, p.Cost)
		}
	}
	if len(w.leans) > 0 {
		w.lean()
	}
	pass := true
	for i := range w.Parts {
		p := &w.Parts[i]
		pass = pass && (p.Take.Op != stint.Ask || p.Result.Allowed || p.leaned && !p.asked)
	}
	for i := range w.Parts {
		p := &w.Parts[i]
		p.conclude(pass)
		if p.Loan != nil {
			p.Record.Lend(p.Take.Limit, p.At, p.Loan, p.Cost, &p.Result)
		}
	}
	return pass
}

// conclude does what the part is asked for if the group passes.
func (p *Part[K]) conclude(pass bool) {
	l := p.Take.Limit
	switch {
	case p.Result.Over:
		p.Result = p.Record.Test(l, p.At, 0)
		p.Result.Over = pass
	case p.leaned:
		p.debit(pass)
	case p.Take.Op == stint.Ask && (pass || !p.Result.Allowed || l.Spec().Overdraw):
		retry := p.Result.RetryAfter
		p.Result = p.Record.Take(l, p.At, p.Cost)
		if p.Take.Borrows > 0 {
			p.Result.RetryAfter = min(p.Result.RetryAfter, retry)
		}
	case pass:
		p.Result = p.Record.Apply(p.Take.Op, l, p.At, p.Cost, p.Take.Undo)
	default:
		p.Result = p.Record.Test(l, p.At, 0)
	}
}

// lean lets the parts that do not fit their own limits lean on others. Those that may pass
// so are Over.
func (w *Work[K]) lean() {
	for _, l := range w.leans {
		on := &w.Parts[l.on]
		if w.Parts[l.part].Result.Allowed {
			on.owed += l.cost
		} else {
			on.Cost += l.cost
		}
	}
	for i := range w.Parts {
		if p := &w.Parts[i]; p.leaned {
			p.Result = p.Record.Test(p.Take.Limit, p.At, p.Cost)
		}
	}
	for i := range w.Parts {
		if p := &w.Parts[i]; p.Take.Borrows > 0 && !p.Result.Allowed {
			retry, room := w.room(i)
			p.Result.Allowed, p.Result.Over = room, room
			p.Result.RetryAfter = min(p.Result.RetryAfter, retry)
		}
	}
}

// room says whether all that a part leans on has room, and when it has.
func (w *Work[K]) room(part int) (retry time.Duration, room bool) {
	room = true
	for _, l := range w.leans {
		if on := &w.Parts[l.on]; l.part == part && !on.Result.Allowed {
			room = false
			wait := on.Result.RetryAfter
			if wait != stint.Never {
				wait += on.At.Sub(w.Parts[part].At)
			}
			retry = max(retry, wait)
		}
	}
	return retry, room
}

// debit charges a part that others lean on.
func (p *Part[K]) debit(pass bool) {
	l := p.Take.Limit
	switch {
	case !pass && p.Result.Allowed:
		p.Result = p.Record.Test(l, p.At, 0)
	case !pass || p.Cost > 0:
		p.Result = p.Record.Take(l, p.At, p.Cost)
	}
	if pass && p.owed > 0 {
		p.Result = p.Record.DebitCapped(l, p.At, p.owed)
	}
}

// Answer writes the results of the group, and forgets it.
func (w *Work[K]) Answer(c *stint.Call) {
	for i, n := range w.of {
		if n >= 0 {
			c.Results[i] = w.Parts[n].Result
		}
	}
	clear(w.Parts) // keep nobody's limits and states alive
}
