// Package together decides takes of one call that stand or fall together, on states that
// the caller holds.
package together

import (
	"fmt"
	"time"

	"stint"
)

// Whole is the group of all takes of a call that are not apart.
const Whole = -1

// Work is a group of takes being decided: Collect, then the caller sets the State and At of
// all Parts, then Decide, then Answer. It may be used again; the zero Work is ready.
type Work struct {
	Parts []Part
	of    []int // the part of each take; -1 for takes of another group
	leans []lean
}

// Part is one key of a group. Takes of the same key are one part with the sum of their costs.
type Part struct {
	Take  *stint.Take // the first of the key
	State *stint.State
	At    stint.Instant

	cost   uint64
	result stint.Decision
	asked  bool   // by a take that leans on nothing and is not leaned on
	leaned bool   // by another part
	owed   uint64 // debited unasked, see stint.Take.Leans
}

// lean says that one part leans on another with so many units.
type lean struct {
	part, on int
	cost     uint64
}

// Charges says whether the part may change an untouched key.
func (p *Part) Charges() bool {
	return p.leaned || p.Take.Op == stint.Force || p.Take.Op == stint.Ask && p.cost > 0
}

// Collect makes parts of the takes of a group: Whole, or the take of a number with those it
// leans on.
func (w *Work) Collect(c *stint.Call, group int) error {
	clear(w.Parts) // keep nobody's limits and states alive
	w.Parts, w.of, w.leans = w.Parts[:0], w.of[:0], w.leans[:0]
	leader, last := -1, -1 // who leans on the takes up to last
	for i := range c.Takes {
		t := &c.Takes[i]
		in := !t.Apart
		if group != Whole {
			in = i >= group && i <= group+int(c.Takes[group].Leans)
		}
		if !in {
			w.of = append(w.of, -1)
			continue
		}
		leaned := i <= last
		n, ok := w.part(t, leaned)
		if !ok {
			return fmt.Errorf("take %d: %w", i, stint.ErrMixedLimits)
		}
		w.of = append(w.of, n)
		if leaned {
			w.leans = append(w.leans, lean{part: leader, on: n, cost: uint64(t.Cost)})
		} else if t.Leans > 0 {
			leader, last = n, i+int(t.Leans)
		}
	}
	return nil
}

// part returns the number of the part of a take's key.
func (w *Work) part(t *stint.Take, leaned bool) (int, bool) {
	n := 0
	for n < len(w.Parts) && !w.Parts[n].holds(t) {
		n++
	}
	if n == len(w.Parts) {
		w.Parts = append(w.Parts, Part{Take: t})
	} else if !w.Parts[n].joins(t) {
		return 0, false
	}
	p := &w.Parts[n]
	if leaned {
		p.leaned = true // what it is asked for is seen when the others are
		return n, true
	}
	p.asked = p.asked || t.Leans == 0
	p.cost += uint64(t.Cost)
	return n, true
}

func (p *Part) holds(t *stint.Take) bool {
	return p.Take.Key == t.Key && p.Take.Limit.Algorithm() == t.Limit.Algorithm()
}

// joins says whether another take of the same key may stand in the same call.
func (p *Part) joins(t *stint.Take) bool {
	return p.Take.Op == stint.Ask && t.Op == stint.Ask && p.Take.Leans == t.Leans && p.Take.Limit.Same(t.Limit)
}

// Decide answers all parts: everything is done, or nothing. It says whether it was done;
// limits that overdraw or count denied tries charge those all the same.
func (w *Work) Decide() bool {
	for i := range w.Parts {
		if p := &w.Parts[i]; p.Take.Op == stint.Ask {
			p.result = p.Take.Limit.Test(p.State, p.At, p.cost)
		}
	}
	if len(w.leans) > 0 {
		w.lean()
	}
	pass := true
	for i := range w.Parts {
		p := &w.Parts[i]
		pass = pass && (p.Take.Op != stint.Ask || p.result.Allowed || p.leaned && !p.asked)
	}
	for i := range w.Parts {
		w.Parts[i].conclude(pass)
	}
	return pass
}

// conclude does what the part is asked for if the group passes.
func (p *Part) conclude(pass bool) {
	l := p.Take.Limit
	switch {
	case p.result.Over:
		p.result = l.Test(p.State, p.At, 0)
		p.result.Over = pass
	case p.leaned:
		p.debit(pass)
	case pass:
		p.result = Apply(p.Take, p.State, p.At, p.cost)
	case p.Take.Op == stint.Ask && (!p.result.Allowed || l.Spec().Overdraw):
		retry := p.result.RetryAfter
		p.result = l.Take(p.State, p.At, p.cost)
		if p.Take.Leans > 0 {
			p.result.RetryAfter = min(p.result.RetryAfter, retry)
		}
	default:
		p.result = l.Test(p.State, p.At, 0)
	}
}

// Apply does the operation of a take to a state.
func Apply(t *stint.Take, st *stint.State, at stint.Instant, cost uint64) stint.Decision {
	switch t.Op {
	case stint.Force:
		return t.Limit.Force(st, at, cost)
	case stint.Refund:
		return t.Limit.Refund(st, at, cost, t.Undo)
	case stint.Settle:
		return t.Limit.Settle(st, at, cost, t.Undo)
	case stint.Reset:
		t.Limit.Reset(st, at)
		return t.Limit.Test(st, at, 0)
	}
	return t.Limit.Take(st, at, cost)
}

// lean lets the parts that do not fit their own limits lean on others. Those that may pass
// so are Over.
func (w *Work) lean() {
	for _, l := range w.leans {
		on := &w.Parts[l.on]
		if w.Parts[l.part].result.Allowed {
			on.owed += l.cost
		} else {
			on.cost += l.cost
		}
	}
	for i := range w.Parts {
		if p := &w.Parts[i]; p.leaned {
			p.result = p.Take.Limit.Test(p.State, p.At, p.cost)
		}
	}
	for i := range w.Parts {
		if p := &w.Parts[i]; p.Take.Leans > 0 && !p.result.Allowed {
			retry, room := w.room(i)
			p.result.Allowed, p.result.Over = room, room
			p.result.RetryAfter = min(p.result.RetryAfter, retry)
		}
	}
}

// room says whether all that a part leans on has room, and when it has.
func (w *Work) room(part int) (retry time.Duration, room bool) {
	room = true
	for _, l := range w.leans {
		if on := &w.Parts[l.on]; l.part == part && !on.result.Allowed {
			room = false
			retry = max(retry, on.result.RetryAfter)
		}
	}
	return retry, room
}

// debit charges a part that others lean on.
func (p *Part) debit(pass bool) {
	l := p.Take.Limit
	switch {
	case !pass && p.result.Allowed:
		p.result = l.Test(p.State, p.At, 0)
	case !pass || p.cost > 0:
		p.result = l.Take(p.State, p.At, p.cost)
	}
	if pass && p.owed > 0 {
		p.result = l.Owe(p.State, p.At, p.owed)
	}
}

// Answer writes the results of the group.
func (w *Work) Answer(c *stint.Call) {
	for i, n := range w.of {
		if n >= 0 {
			c.Results[i] = w.Parts[n].result
		}
	}
}
