package limits

import (
	"slices"
	"time"

	"stint"
)

// Funds are all that a take of a key with grants can be charged to, at a time: the carry, the grants
// and the limit itself.
type Funds struct {
	*Record
	book  *Book
	limit *stint.Limit
	meter *Meter
	now   stint.Instant

	carry, last, before Carry // see Book.turn
}

// FundsOf returns the funds of a take. The record and the book are those of its key, and stay the
// caller's.
func FundsOf(r *Record, b *Book, l *stint.Limit, m *Meter, now stint.Instant) Funds {
	f := Funds{Record: r, book: b, limit: l, meter: m, now: now}
	f.carry, f.last, f.before = f.book.turn(f.limit, f.meter.Rollover, f.now)
	return f
}

// valid reports whether units of a grant count at a time.
func valid(g *Grant, at stint.Instant) bool { return g.From <= at && at < g.Until }

// left returns how many units of a grant are left at a time.
func (f *Funds) left(g *Grant, at stint.Instant) int64 {
	if !valid(g, at) {
		return 0
	}
	return f.book.OfGrant(g).Left()
}

// split is how the units of a take are divided: to the carry, to the grants by their index, and to the
// limit itself.
type split struct {
	carry  int64
	grants [MaxGrants]int64
	own    uint64
}

// split divides the cost of a take. What no source has left falls to the limit itself.
func (f *Funds) split(cost uint64) (s split) {
	rest := cost
	use := func(left int64) int64 {
		units := min(rest, uint64(left))
		rest -= units
		return int64(units)
	}
	grants := func(before bool) {
		for i := range f.meter.Grants {
			if g := &f.meter.Grants[i]; g.Priority < OwnPriority == before {
				s.grants[i] = use(f.left(g, f.now))
			}
		}
	}
	s.carry = use(f.carry.left())
	grants(true)
	s.own = min(rest, uint64(f.Record.Test(f.limit, f.now, 0).Remaining))
	rest -= s.own
	grants(false)
	s.own += rest
	return s
}

// add adds what grants and the carry have to a decision about the limit itself.
func (f *Funds) add(d *stint.Decision) {
	d.Limit = LimitWith(d.Limit, f.meter, f.carry.Units, f.now)
	d.Remaining += f.carry.left()
	for i := range f.meter.Grants {
		d.Remaining += f.left(&f.meter.Grants[i], f.now)
	}
}

// LimitWith returns a Decision.Limit with the units of a carry, and of the grants that count at a time.
func LimitWith(limit int64, m *Meter, carry int64, at stint.Instant) int64 {
	limit += carry
	for i := range m.Grants {
		if g := &m.Grants[i]; valid(g, at) {
			limit += g.Units
		}
	}
	return limit
}

// Test does what Record.Test does.
func (f *Funds) Test(cost uint64) stint.Decision {
	s := f.split(cost)
	d := f.Record.Test(f.limit, f.now, s.own)
	f.conclude(&d, cost)
	return d
}

// conclude turns a decision about the limit itself into that about a take of a cost.
func (f *Funds) conclude(d *stint.Decision, cost uint64) {
	if !d.Allowed {
		d.RetryAfter = f.retry(cost)
	}
	f.add(d)
}

// Take does what Record.Take does.
func (f *Funds) Take(cost uint64) (d stint.Decision, c UseChange) {
	s := f.split(cost)
	d = f.Record.Take(f.limit, f.now, s.own)
	if d.Allowed && cost > 0 {
		c = f.charge(&s, cost)
		d.Spent = f.spending(&s).Text(f.meter)
	}
	if f.conclude(&d, cost); !d.Allowed && d.RetryAfter != stint.Never && f.Record.Limit != nil {
		f.Record.Limit.ForStores().Correct(&f.State, f.now, 0) // the limit itself need not fit the cost
	}
	return d, c
}

// force does what Record.Force does: grants are used as by a take, and the limit itself has the debt.
func (f *Funds) force(cost uint64) (d stint.Decision, c UseChange) {
	s := f.split(cost)
	d = f.Record.Force(f.limit, f.now, s.own)
	if f.limit.Capacity() == 0 { // such a limit counts nothing
		cost -= s.own
		s.own = 0
	}
	if cost > 0 {
		c = f.charge(&s, cost)
		d.Spent = f.spending(&s).Text(f.meter)
	}
	f.add(&d)
	return d, c
}

// charge writes a take into the book.
func (f *Funds) charge(s *split, cost uint64) UseChange {
	f.book.extend(f.meter.Grants)
	f.book.tidy(f.now)
	for i, units := range s.grants[:len(f.meter.Grants)] {
		if units > 0 {
			f.book.charge(&f.meter.Grants[i], units)
		}
	}
	c := f.Charged(f.limit, cost, f.now)
	if f.meter.Rollover > 0 {
		f.carry.Used += s.carry
		f.carry.Own, f.carry.Of = c.Used, f.limit.Capacity()
		f.book.Carry, f.book.Before = f.carry, f.before
	}
	f.book.Forget(c.Start)
	return c
}

// spending returns what a take was charged.
func (f *Funds) spending(s *split) *Spending {
	return &Spending{s.carry, int64(s.own), f.carry.End, s.grants[:len(f.meter.Grants)]}
}

// Spending is what a take was charged: units to the carry of the period that ends at End, to each grant of
// its meter, and to the limit itself.
type Spending struct {
	Carry, Own int64
	End        stint.Instant
	Grants     []int64
}

// Text returns the Decision.Spent of the take.
func (s *Spending) Text(m *Meter) string {
	var b []byte
	add := func(one Source) { b = one.append(b) }
	grants := func(before bool) {
		for i, units := range s.Grants {
			if g := &m.Grants[i]; g.Priority < OwnPriority == before {
				add(Source{Kind: SpentGrant, ID: g.ID, Units: units})
			}
		}
	}
	add(Source{Kind: SpentCarry, End: s.End, Units: s.Carry})
	grants(true)
	add(Source{Units: s.Own})
	grants(false)
	return string(b)
}

// refund does what Record.Refund does. Units go back to what the take was charged to, the last used
// first: to the limit itself and the carry only while the period runs, to a grant until it ends. The
// use of a period that has ended stays as it is.
func (f *Funds) refund(cost uint64, undo *stint.Decision) (d stint.Decision, c UseChange) {
	var back []Source
	f.book.extend(f.meter.Grants)
	if undo != nil {
		back = SpentLast(undo.Spent, cost)
	} else {
		back = f.newest(cost)
	}
	for _, s := range back {
		switch s.Kind {
		case SpentOwn:
			before := f.Used(f.now)
			f.Record.Refund(f.limit, f.now, uint64(s.Units), undo)
			c.GivenBack += f.GivenBack(before, uint64(s.Units), f.now).GivenBack
		case SpentCarry:
			c.GivenBack += uint64(f.book.Carry.giveBack(s.End, s.Units, f.now))
		case SpentGrant:
			c.GivenBack += uint64(f.book.giveBack(s.ID, s.Units, f.now))
		}
	}
	f.recount()
	d = f.Record.Test(f.limit, f.now, 0)
	if _, end := f.limit.ForStores().Window(f.seen(f.limit, f.now), f.now); undo != nil && undo.At.Add(undo.ResetAfter) != end {
		c.GivenBack = 0
	}
	f.add(&d)
	return d, c
}

// newest returns what a refund of no certain take gives back: what is used now, the source that is
// used last first.
func (f *Funds) newest(cost uint64) (back []Source) {
	grants := func(before bool) {
		for _, g := range slices.Backward(f.meter.Grants) {
			if g.Priority < OwnPriority == before && valid(&g, f.now) {
				units := min(cost, uint64(f.book.used(g.ID)))
				cost -= units
				back = append(back, Source{Kind: SpentGrant, ID: g.ID, Units: int64(units)})
			}
		}
	}
	grants(false)
	own := min(cost, uint64(f.Used(f.now)))
	cost -= own
	back = append(back, Source{Units: int64(own)})
	grants(true)
	return append(back, Source{Kind: SpentCarry, End: f.carry.End, Units: int64(min(cost, uint64(f.carry.Used)))})
}

// recount writes the carry after something was given back or reset, if its period still runs.
func (f *Funds) recount() {
	c := &f.book.Carry
	if f.now >= c.End {
		return
	}
	if !c.ahead(f.now) {
		c.Own = f.limit.ForStores().Used(f.seen(f.limit, f.now), f.now)
	}
	f.carry, f.last, f.before = f.book.turn(f.limit, f.meter.Rollover, f.now)
}

// Apply does the operation op, as Record.Apply and Record.Metered do.
func (f *Funds) Apply(op stint.Op, cost uint64, undo *stint.Decision) (d stint.Decision, c UseChange) {
	switch op {
	case stint.Force:
		return f.force(cost)
	case stint.Refund:
		return f.refund(cost, undo)
	case stint.AskAtMost:
		d = f.Test(min(cost, 1))
		units := d.AtMost(cost)
		d, c = f.Take(units)
		d.Charge(units)
		return d, c
	case stint.Ask:
		return f.Take(cost)
	}
	d = f.Record.Apply(op, f.limit, f.now, cost, undo)
	f.recount()
	f.add(&d)
	return d, c
}

// retry returns how long until a cost fits that does not fit now, if nobody else takes. What the carry
// and the grants have changes only at certain times. Between two of these the limit itself needs to
// have the rest.
func (f *Funds) retry(cost uint64) time.Duration {
	carries := f.carries()
	times := make([]stint.Instant, 1, 1+len(carries)+2*len(f.meter.Grants))
	times[0] = f.now
	for _, c := range carries {
		if c.from > f.now {
			times = append(times, c.from)
		}
	}
	for _, g := range f.meter.Grants {
		if g.From > f.now {
			times = append(times, g.From)
		}
		if g.Until > f.now {
			times = append(times, g.Until)
		}
	}
	slices.Sort(times)
	carry := int64(0)
	for i, from := range times {
		for len(carries) > 0 && carries[0].from <= from {
			carry, carries = carries[0].units, carries[1:]
		}
		there := carry
		for n := range f.meter.Grants {
			there += f.left(&f.meter.Grants[n], from)
		}
		wait := f.ownWait(cost - min(cost, uint64(there)))
		if wait == stint.Never {
			continue
		}
		at := max(from, f.now.Add(wait))
		if i+1 == len(times) || at < times[i+1] {
			return at.Sub(f.now)
		}
	}
	return stint.Never
}

// ownWait returns how long until units fit the limit itself.
func (f *Funds) ownWait(units uint64) time.Duration {
	d := f.Record.Test(f.limit, f.now, units)
	if d.Allowed {
		return 0
	}
	return d.RetryAfter
}

// carried is how many units the carry has from a time on.
type carried struct {
	from  stint.Instant
	units int64
}

// carries returns what the carry has now, and will have in the periods that follow, if nobody takes; nil
// without a rollover. The carry of a clock that ran ahead begins to count when the time is near its period,
// and until then that before it counts, see Book.turn.
func (f *Funds) carries() (all []carried) {
	if f.meter.Rollover == 0 {
		return nil
	}
	b, from := f.book, f.now
	if until := b.Carry.counts(); until > from {
		if at := max(from, b.Before.counts()); at < until {
			all = f.follow(all, &b.Before, &b.Carry, at, until)
		}
		from = until
	}
	return f.follow(all, &b.Carry, new(Carry), from, stint.MaxInstant+1)
}

// follow appends what a carry leaves to the periods from a time on until another, less what a clock ahead
// has used. Of a calendar it counts on no window after horizon: a store need not know them.
func (f *Funds) follow(all []carried, c, ahead *Carry, from, until stint.Instant) []carried {
	units := func(c Carry) int64 {
		c.add(ahead)
		return c.left()
	}
	all = append(all, carried{from, units(*c)})
	if c.End == 0 {
		return all
	}
	last := f.horizon(c)
	start, end := c.next(f.limit)
	for k := int64(1); k <= MaxIdle+1 && (start < until || start > last); k++ {
		left := units(Carry{Units: c.after(k, f.meter.Rollover)})
		switch {
		case start > last:
			if nothing := max(last, c.End); nothing < until {
				all = append(all, carried{nothing, 0})
			}
			return all
		case start > from:
			all = append(all, carried{start, left})
		default: // the period began before
			all[len(all)-1].units = left
		}
		start, end = windowAt(f.limit, end)
	}
	return all
}

// horizon returns the start of the last window of a calendar that follow counts on: the one so many after that
// of now that all periods of a carry are there which ends with the window of now. It is the end of time for
// such a carry, and for windows of no calendar.
func (f *Funds) horizon(c *Carry) stint.Instant {
	if f.limit.Spec().Calendar == stint.NoPeriod {
		return stint.MaxInstant
	}
	_, end := windowAt(f.limit, f.now)
	if c.End <= end {
		return stint.MaxInstant
	}
	for range MaxIdle + 1 {
		_, end = windowAt(f.limit, end)
	}
	return end
}
