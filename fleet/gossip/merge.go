package gossip

import (
	"math"

	"stint"
	"stint/fleet/gossip/wire"
)

// merge makes what another node knows of a key a part of what is known here.
func (n *Node) merge(it *wire.Entry, now stint.Instant) {
	sh := n.shardOf(it.Limit.Algorithm(), it.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.latest.Of(now)
	e := sh.keys[name{it.Key, it.Limit.Algorithm()}]
	if e == nil {
		if it.Limit.Untouched(&it.State, now) {
			return
		}
		e = n.addRemoteLocked(sh, it.Key, it.Limit, now)
	}
	e.advance(now)
	if !e.limit.ForStores().Same(it.Limit) {
		e.limit.ForStores().Migrate(&it.State, it.Limit, now)
	}
	e.extend(it.Since)
	x := n.compare(e, it)
	if !x.lacks {
		return
	}
	used := e.limit.ForStores().Used(&e.state, now)
	switch {
	case x.surplus == 0 && e.base == nil && e.kind == other:
		it.State.CopyTo(&e.state)
	case x.reset, x.unknown && e.kind == other:
		if x.reset {
			used = 0
		}
		it.State.CopyTo(&e.state)
		e.force(min(x.surplus, uint64(used)), now)
	default:
		e.combine(it, &x, now)
	}
	for i := range it.Counts {
		c := &it.Counts[i]
		if c.Origin == n.id {
			continue
		}
		h := e.findCounter(c.Origin)
		if h != nil && !c.Newer(&h.Count) && (c.Number <= h.Number || c.Born != h.Born) {
			continue
		}
		at := e.idle - e.refilled(c.At, now) // it was right then, and may lack something since
		if h != nil {
			at = max(at, h.idle)
		}
		h = e.counterOf(c.Origin, c.At)
		h.Count, h.idle = c.Count, at
	}
}

// combine makes the state one of all that two nodes know, of which each knows some that the
// other one does not. What was taken when is known of neither, but it is at least
//
//	what is used here, and what the other one took of which nothing is known here, but for
//	what could have been taken here since and was not
//
//	what is used there
//
//	what was taken since either was as untouched last, here and there, if neither knew of
//	the other: each of them counts what came back meanwhile, and it came back once
func (e *entry) combine(it *wire.Entry, x *difference, now stint.Instant) {
	more := wire.Net(x.taken, x.given)
	before, there := e.limit.ForStores().Used(&e.state, now), e.limit.ForStores().Used(&it.State, now)
	state, here, theirs, stretch := stint.State{}, e.busy(now), busy{since: it.Busy.Since, taken: it.Busy.Taken}, busy{}
	sum := more > 0 && x.surplus > 0 && here.taken > 0 && theirs.taken > 0 && x.agreed < max(here.since, theirs.since)
	if sum {
		e.addStretches(&state, here, theirs, now)
	}
	absorbed := e.absorb(more, x.since)
	switch {
	case x.surplus == 0 && e.base == nil:
		it.State.CopyTo(&e.state)
		stretch = theirs
	case more > 0:
		e.force(more-absorbed, now)
	case x.given > x.taken:
		e.refund(x.given-x.taken, x.since, now)
	}
	if there > e.limit.ForStores().Used(&e.state, now) {
		it.State.CopyTo(&e.state)
		stretch = theirs
	}
	if sum && e.limit.ForStores().Used(&state, now) > e.limit.ForStores().Used(&e.state, now) {
		state.CopyTo(&e.state)
		stretch = busy{min(here.since, theirs.since), here.taken + theirs.taken, now}
	}
	e.setBusy(stretch, now)
	if e.kind != other { // what was not absorbed after all can be later
		e.idle += int64(absorbed) - max(0, int64(more)-max(0, e.limit.ForStores().Used(&e.state, now)-before))
	}
}

// addStretches makes a state that of two stretches, of which each counts as coming back what came back
// once.
func (e *entry) addStretches(st *stint.State, a, b busy, now stint.Instant) {
	since := min(a.since, b.since)
	if e.kind == bucket {
		st.T, st.Written = int64(since)+a.taken+b.taken, now
	} else if used := a.taken + b.taken - e.refilled(since, now); used > 0 {
		e.limit.Force(st, now, uint64(used))
	}
}

// difference is what two nodes know of a key: one lacks something, or has a surplus.
type difference struct {
	lacks        bool
	taken, given uint64 // what is lacking
	since        int64  // idleness when that was complete
	unknown      bool   // some of it is of a node of which nothing was heard
	reset        bool   // some of it came after a reset
	surplus      uint64

	agreed stint.Instant // before this was taken all that both know of
}

// compare says what is known of an entry here and by another node.
func (n *Node) compare(e *entry, it *wire.Entry) (x difference) {
	x.since, x.agreed = math.MaxInt64, e.baseAt
	seen := make(map[uint64]bool, len(it.Counts))
	for i := range it.Counts {
		c := &it.Counts[i]
		seen[c.Origin] = true
		mine, since, told := wire.Count{}, int64(0), c.At
		if c.Origin == n.id {
			mine = e.own
		} else if h := e.findCounter(c.Origin); h != nil {
			mine, since, told = h.Count, h.idle, h.at
			if mine.Newer(&c.Count) {
				told = c.At
			} else if mine == c.Count {
				told = max(told, c.At)
			}
		}
		if mine.Taken > 0 {
			x.agreed = max(x.agreed, told.Add(staleAfter*n.interval))
		}
		switch {
		case c.Origin == n.id && c.Born != mine.Born: // of an earlier time, over by now
			// The present one is not known there.
			x.surplus += wire.Net(mine.Taken, mine.Given)
		case c.Newer(&mine):
			taken, given := c.Beyond(&mine)
			x.taken, x.given, x.lacks = x.taken+taken, x.given+given, true
			x.since = min(x.since, since)
			x.unknown = x.unknown || c.Born > mine.Born && !n.bornSince(c)
			x.reset = x.reset || c.Reset && c.Born > mine.Born
		case mine.Newer(&c.Count):
			x.surplus += wire.Net(mine.Beyond(&c.Count))
		}
	}
	for i := range e.counters {
		if h := &e.counters[i]; !seen[h.origin] {
			x.surplus += wire.Net(h.Taken, h.Given)
		}
	}
	if !seen[n.id] {
		x.surplus += wire.Net(e.own.Taken, e.own.Given)
	}
	return x
}

// bornSince says whether a count began after all that was heard of its node.
func (n *Node) bornSince(c *wire.OriginCount) bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	o := n.session.origins[c.Origin]
	return o != nil && o.complete != 0 && c.Born > o.upTo
}
