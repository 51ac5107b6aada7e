package gossip

import (
	"cmp"
	"slices"

	"stint"
	"stint/fleet/gossip/wire"
)

// counter is how many units one node took of a key, by period. The count at the end of a period only
// grows, so two nodes that know different parts of it know all of it by the larger count of each
// period (a G-Counter). A node that starts again has another number, and so a new counter.
//
// A period of a window is the window. A period of a bucket begins with the first take after the
// period before, and lasts an eighth of the time in which the bucket gets full; all takes in it
// count as taken at its begin. Nodes that know the periods of all takes compute the use from them,
// as one node does that sees each take: see entry.replay.
//
// Memory is bounded: once all reports up to a time have arrived, earlier periods are dropped, so that
// a counter has about manyMarks. While some are missing, it has up to maxMarks, and the two periods
// whose union moves the fewest units by the shortest time become one.
type counter struct {
	node       uint64
	wire.Count               // now
	base       wire.Count    // at entry.settledAt
	marks      []wire.Mark   // at the end of each period since then; the last one lasts until now
	ends       stint.Instant // of the last period
}

// open begins a period if the current one is over or the clock was set back. It must be called
// before the count grows.
func (e *entry) open(c *counter, now stint.Instant) {
	if now < c.ends && now >= e.nextAt || e.kind == other {
		return
	}
	if now < e.nextAt { // the clock was set back
		e.settle(e.state, now, stint.MaxInstant, now)
	}
	c.close()
	begin := now
	if e.kind == window {
		begin -= now % stint.Instant(e.per)
		if c == &e.own && c.ends <= begin {
			e.late = c.Taken
		}
	}
	c.ends = begin + stint.Instant(e.per)
	if n := len(c.marks); n > 1 && !c.marks[n-1].Newer(&c.marks[n-2].Count) {
		c.marks = c.marks[:n-1]
	}
	c.join(maxMarks - 1)
	c.marks = append(c.marks, wire.Mark{At: max(now, e.nextAt+1), Count: c.Count})
}

// close stores the count in the current period.
func (c *counter) close() {
	if last := len(c.marks) - 1; last >= 0 && c.Newer(&c.marks[last].Count) {
		c.marks[last].Count = c.Count
	}
}

// join makes one period of two, until there are at most so many.
func (c *counter) join(most int) {
	for len(c.marks) > most {
		at, least := 0, 0.0
		for i := 1; i < len(c.marks)-1; i++ {
			units, _ := c.marks[i].Beyond(&c.marks[i-1].Count)
			if weight := float64(units) * float64(c.marks[i].At-c.marks[i-1].At); at == 0 || weight < least {
				at, least = i, weight
			}
		}
		c.marks[at-1].Count = c.marks[at].Count
		c.marks = slices.Delete(c.marks, at, at+1)
	}
}

// add adds the periods that another node knows of a counter.
func (c *counter) add(it *wire.OriginCount) {
	c.close()
	list := append(c.marks, wire.Mark{Count: it.Base}) // as early as can be
	for i := range c.marks {
		if !c.marks[i].Newer(&it.Base) {
			list[len(c.marks)].At = c.marks[i].At
		}
	}
	list = append(list, it.Marks...)
	slices.SortStableFunc(list, byTime)
	last := c.base
	c.marks = list[:0]
	for _, m := range list {
		if m.Born == last.Born {
			m.Taken, m.Given = max(m.Taken, last.Taken), max(m.Given, last.Given)
		}
		if m.Newer(&last) {
			c.marks, last = append(c.marks, m), m.Count
		}
	}
	if c.join(maxMarks); cap(c.marks) > maxMarks { // append reserves memory for more
		c.marks = slices.Clone(c.marks)
	}
}

func byTime(a, b wire.Mark) int { return cmp.Compare(a.At, b.At) }

// all returns the counters of all nodes.
func (e *entry) all() []*counter {
	list := []*counter{&e.own}
	for i := range e.counters {
		list = append(list, &e.counters[i])
	}
	return list
}

// replay returns the state after all takes in the order of their periods.
func (e *entry) replay(now stint.Instant) *stint.State {
	var list []wire.Mark // with what was taken in the period alone
	for _, c := range e.all() {
		c.close()
		last := c.base
		for _, m := range c.marks {
			taken, given := m.Beyond(&last)
			list = append(list, wire.Mark{At: min(m.At, now), Count: wire.Count{Taken: taken, Given: given}})
			last = m.Count
		}
	}
	slices.SortStableFunc(list, byTime)
	st := e.settled
	for _, m := range list {
		e.debit(&st, m.Taken, m.Given, m.At)
	}
	return &st
}

// raise makes a state the current one if it has more use.
func (e *entry) raise(st *stint.State, now stint.Instant) {
	if e.limit.ForStores().Used(st, now) > e.limit.ForStores().Used(&e.state, now) {
		st.CopyTo(&e.state)
	}
}

// settle makes a state the settled one, with all takes of periods that began by a time. The state
// of now is the next to be settled.
func (e *entry) settle(st stint.State, at, by, now stint.Instant) {
	if e.kind == other {
		return
	}
	e.settled, e.settledAt, e.next, e.nextAt = st, at, e.state, now
	for _, c := range e.all() {
		c.close()
		c.forget(by)
		for i := range c.marks { // the next state has these
			c.marks[i].At = min(c.marks[i].At, now)
		}
		c.ends = min(c.ends, now)
	}
}

// settleNext makes the next state the settled one, if a counter has many periods and all reports
// from before that state have arrived.
func (e *entry) settleNext(c *counter, settled, now stint.Instant) {
	if len(c.marks) >= manyMarks && e.nextAt <= settled {
		e.settle(e.next, e.nextAt, e.nextAt, now)
	}
}

// forget drops the times of takes in periods that began by a time.
func (c *counter) forget(by stint.Instant) {
	n := 0
	for n < len(c.marks) && c.marks[n].At <= by {
		c.base = c.marks[n].Count
		n++
	}
	c.marks = slices.Delete(c.marks, 0, n)
}
