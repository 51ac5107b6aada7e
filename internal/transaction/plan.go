package transaction

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"stint"
	"stint/internal/limits"
)

// Record is the state of a key. It and the types below decide about one key, and stand in package limits.
type Record = limits.Record

// Meter is the type of stint.Handling.Meter.
type Meter = limits.Meter

// Grant is a package of units beside a limit.
type Grant = limits.Grant

// Book is what a key has used of its grants, and its rollover.
type Book = limits.Book

// UseChange is what an operation changed of the use of a key.
type UseChange = limits.UseChange

// AllOrNone is the group of all takes of a call that are not Independent.
const AllOrNone = -1

// Groups yields the groups of a call in the order in which they are decided: AllOrNone if any take
// is in it, then the index of each Independent take that is not a source.
func Groups(c *stint.Call) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range c.Takes {
			if !c.Takes[i].Independent {
				if !yield(AllOrNone) {
					return
				}
				break
			}
		}
		for i := 0; i < len(c.Takes); i++ {
			if c.Takes[i].Independent {
				if !yield(i) {
					return
				}
				i += int(c.Takes[i].Borrows)
			}
		}
	}
}

// ID identifies a key in most stores: the same text under another algorithm is another key.
type ID struct {
	Key       stint.Key
	Algorithm stint.Algorithm
}

// IDOf returns the ID of the key of a take.
func IDOf(t *stint.Take) ID { return ID{t.Key, t.Limit.Algorithm()} }

// Plan is a group of takes that all pass or none is charged. K is the type of the caller's names
// for keys. A Plan may be used again. The zero Plan is ready when Name is set.
type Plan[K comparable] struct {
	// Name returns the caller's name of the key of a take. Takes with the same name are one part.
	Name func(*stint.Take) K

	Parts []Part[K]
	first int    // index of the first take of the group
	of    []int  // index of the part of each take from first on; -1: a take of another group
	debts []debt // what borrowers need of their sources, or owe them
}

// Part is one key of a group: its takes, with the sum of their costs.
type Part[K comparable] struct {
	Name   K
	Take   *stint.Take  // the first take of the key
	Limit  *stint.Limit // the take's limit, unless the caller sets another
	Cost   uint64       // sum of all takes of the key except sources; of an AskAtMost what it takes
	Asked  bool         // some take is not a source
	Source bool         // other parts borrow from it

	Fits    bool // its own limit has room for it
	Over    bool // its own limit has no room, and all its sources have
	Charged bool // Decide took Cost, and what was borrowed, if that was allowed
	alone   bool // its server is away, so its failure policy decided: it does not borrow
	Result  stint.Decision

	// Record is the state of the key, and At the time of the decision. For Decide the caller sets
	// both, and stores the Record afterwards.
	Record Record
	At     stint.Instant

	// Loan is the report of a node that may have units of the key; nil: none. The caller has read
	// it (see [Record.Report]); Decide lends.
	Loan *stint.Loan

	// Book is that of a key whose take has grants, see limits.Granted; nil for others. For Decide the caller
	// sets it, and stores it afterwards.
	Book *Book

	// Change is what Decide changed of the use of a key with a history, see stint.Take.Metered.
	Change UseChange

	extra uint64 // units for borrowers that do not fit their own limits
	owed  uint64 // units that borrowers owe which fit
}

// debt is the units that one part needs of its source, or owes it.
type debt struct {
	borrower, source int
	cost             uint64
}

// Set sets the limit, the key's state under it, and the time of the decision.
func (p *Part[K]) Set(limit *stint.Limit, state stint.State, at stint.Instant) {
	p.Limit, p.Record, p.At = limit, Record{State: state, Limit: limit}, at
}

// Units returns the units of a test: Cost, and those for borrowers that do not fit their own
// limits.
func (p *Part[K]) Units() uint64 { return p.Cost + p.extra }

// Charges reports whether the part may change an untouched key.
func (p *Part[K]) Charges() bool {
	if p.Source || p.Take.Op == stint.Force {
		return true
	}
	l := p.Limit
	return p.Take.Op.Asks() && p.Cost > 0 && (p.Cost <= uint64(l.Capacity()) || p.atMost() || l.ForStores().Overdraws())
}

// Debits returns the most units that a part may be charged, and whether it may be charged even if
// they do not fit.
func (w *Plan[K]) Debits(part int) (units uint64, unasked bool) {
	p := &w.Parts[part]
	if !p.Take.Op.Asks() && p.Take.Op != stint.Force {
		return 0, false
	}
	units = p.Cost
	for i := range w.debts {
		if w.debts[i].source == part {
			units += w.debts[i].cost
		}
	}
	return units, p.Source || p.Take.Op == stint.Force || p.Limit.ForStores().Overdraws()
}

// Collect reads the takes of a group into parts. group is AllOrNone, or the index of a take, which
// goes with its sources.
func (w *Plan[K]) Collect(c *stint.Call, group int) error {
	if len(w.Parts) > 0 {
		w.Release()
	}
	w.of, w.debts = w.of[:0], w.debts[:0]
	end := len(c.Takes)
	if w.first = max(group, 0); group != AllOrNone {
		end = group + 1 + int(c.Takes[group].Borrows)
	}
	borrower, last := -1, -1 // index of the part that borrows from the takes up to last
	for i := w.first; i < end; i++ {
		t := &c.Takes[i]
		if group == AllOrNone && t.Independent {
			w.of = append(w.of, -1)
			continue
		}
		source := i <= last
		n, ok := w.join(t, source)
		if !ok {
			w.Release()
			return fmt.Errorf("take %d: %w", i, stint.ErrMixedLimits)
		}
		w.of = append(w.of, n)
		if source {
			w.debts = append(w.debts, debt{borrower: borrower, source: n, cost: uint64(t.Cost)})
		} else if t.Borrows > 0 {
			borrower, last = n, i+int(t.Borrows)
		}
	}
	return nil
}

// join adds a take to the part of its key, and returns the part's index. It returns false if the
// two may not be in one group.
func (w *Plan[K]) join(t *stint.Take, source bool) (int, bool) {
	n, name := 0, w.Name(t)
	for n < len(w.Parts) && w.Parts[n].Name != name {
		n++
	}
	if n == len(w.Parts) {
		w.Parts = slices.Grow(w.Parts, 1)[:n+1] // unused elements are zero, see Release
		w.Parts[n].Name, w.Parts[n].Take, w.Parts[n].Limit = name, t, t.Limit
	} else if !MayJoin(w.Parts[n].Take, t) {
		return 0, false
	}
	p := &w.Parts[n]
	if source {
		p.Source = true
		return n, true
	}
	p.Asked = true
	p.Cost += uint64(t.Cost)
	return n, true
}

// MayJoin reports whether two takes of the same key may be in the same group.
func MayJoin(a, b *stint.Take) bool {
	return a.Op == stint.Ask && b.Op == stint.Ask && a.Borrows == b.Borrows && a.Limit.ForStores().Same(b.Limit)
}

// CheckApart returns [stint.ErrMixedLimits] if an Independent take and its sources may not be in
// one group. A store that decides one group after another calls it before it charges the first.
func CheckApart(c *stint.Call) error {
	for i := range c.Takes {
		t := &c.Takes[i]
		if !t.Independent || t.Borrows == 0 {
			continue
		}
		for n := i + 1; n <= i+int(t.Borrows); n++ {
			on := &c.Takes[n]
			mixed := func(other stint.Take) bool { return IDOf(&other) == IDOf(on) && !MayJoin(&other, on) }
			if slices.ContainsFunc(c.Takes[i:n], mixed) {
				return fmt.Errorf("take %d: %w", n, stint.ErrMixedLimits)
			}
		}
	}
	return nil
}

// Of returns the index of a take's part, -1 for a take of another group.
func (w *Plan[K]) Of(take int) int {
	if take < w.first || take >= w.first+len(w.of) {
		return -1
	}
	return w.of[take-w.first]
}

// Takes yields the index of each take of the group and of its part.
func (w *Plan[K]) Takes() iter.Seq2[int, int] {
	return func(yield func(take, part int) bool) {
		for i, n := range w.of {
			if n >= 0 && !yield(w.first+i, n) {
				return
			}
		}
	}
}

// Sources yields the parts that a part borrows from, and how many units from each.
func (w *Plan[K]) Sources(part int) iter.Seq2[int, uint64] {
	return func(yield func(source int, cost uint64) bool) {
		for _, d := range w.debts {
			if d.borrower == part && !yield(d.source, d.cost) {
				return
			}
		}
	}
}

// Answer writes the results of the group into the call, and releases the plan.
func (w *Plan[K]) Answer(c *stint.Call) {
	for i, n := range w.of {
		if n >= 0 {
			c.Results[w.first+i] = w.Parts[n].Result
		}
	}
	DivideSpent(c, w.first, w.of)
	w.Release()
}

// DivideSpent divides what the takes of one key spent, once each has the result of its part: each take has
// a part of Decision.Spent, in their order, and may be given back by itself. of has the part of each take
// from first on, -1 for none.
func DivideSpent(c *stint.Call, first int, of []int) {
	for i, n := range of {
		d := &c.Results[first+i]
		if n < 0 || d.Spent == "" {
			continue
		}
		takes, skip := 0, uint64(0)
		for j, other := range of {
			if other != n {
				continue
			}
			if takes++; j < i {
				skip += uint64(c.Takes[first+j].Cost)
			}
		}
		if takes > 1 {
			d.Spent = limits.SpentPart(d.Spent, skip, uint64(c.Takes[first+i].Cost))
		}
	}
}

// Release empties the plan, so that it keeps no limits and states in memory.
func (w *Plan[K]) Release() {
	clear(w.Parts)
	w.Parts = w.Parts[:0]
}

// borrow adds up, for each source, the units for borrowers that do not fit their own limits, and
// the units that the others owe.
func (w *Plan[K]) borrow() {
	w.resetBorrowing()
	for _, d := range w.debts {
		p, source := &w.Parts[d.borrower], &w.Parts[d.source]
		switch {
		case p.alone:
		case p.Fits:
			source.owed += d.cost
		default:
			source.extra += d.cost
		}
	}
}

// resetBorrowing resets what borrow and passes have set.
func (w *Plan[K]) resetBorrowing() {
	for i := range w.Parts {
		p := &w.Parts[i]
		p.extra, p.owed, p.Over = 0, 0, false
	}
}

// passes reports whether the group passes, after all parts were tested. A part that does not fit
// its own limit passes if all its sources have room.
func (w *Plan[K]) passes() bool {
	pass := true
	for i := range w.Parts {
		p := &w.Parts[i]
		if !p.Take.Op.Asks() {
			continue
		}
		if p.borrows() && !p.Fits {
			_, p.Over = w.room(i, hadRoom)
		}
		pass = pass && (p.Fits || p.Over || !p.Asked)
	}
	return pass
}

// hadRoom reports whether a source had room when it was tested.
func hadRoom[K comparable](source *Part[K]) bool { return source.Fits }

// sooner sets the RetryAfter of denied parts that borrow to the sooner of both ways: their own
// limits, or their sources. It uses the states after denied takes were charged.
func (w *Plan[K]) sooner() {
	for i := range w.Parts {
		if p := &w.Parts[i]; p.borrows() && !p.Fits && !p.Over {
			wait, _ := w.room(i, hadRoom)
			p.Result.RetryAfter = min(p.Result.RetryAfter, wait)
		}
	}
}

// borrows reports whether a part may pass by its sources.
func (p *Part[K]) borrows() bool { return p.Take.Borrows > 0 && !p.alone }

// room reports whether all sources of a part have room, and how long until they have.
func (w *Plan[K]) room(part int, has func(*Part[K]) bool) (wait time.Duration, room bool) {
	room = true
	for _, d := range w.debts {
		source := &w.Parts[d.source]
		if d.borrower != part || has(source) {
			continue
		}
		room = false
		until := source.Result.RetryAfter
		if until != stint.Never {
			until += source.At.Sub(w.Parts[part].At)
		}
		wait = max(wait, until)
	}
	return wait, room
}
