package gossip

import (
	"math"

	"stint"
)

// merge makes what another node knows of a key a part of what is known here.
func (n *Node) merge(it *item, now stint.Instant) {
	sh := n.shardOf(it.limit.Algorithm(), it.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.latest.Of(now)
	e := sh.keys[name{it.key, it.limit.Algorithm()}]
	if e == nil {
		if it.limit.Untouched(&it.state, now) {
			return
		}
		e = n.heardOfLocked(sh, it.key, it.limit, now)
	}
	e.settle(now)
	if !e.limit.ForStores().Same(it.limit) {
		e.limit.ForStores().Migrate(&it.state, it.limit, now)
	}
	e.reach(it.from)
	x := n.compare(e, it)
	if !x.lacks {
		return
	}
	used := e.limit.ForStores().Used(&e.state, now)
	switch {
	case x.surplus == 0 && e.base == nil && e.kind == other:
		it.state.CopyTo(&e.state)
	case x.reset, x.strange && e.kind == other:
		if x.reset {
			used = 0
		}
		it.state.CopyTo(&e.state)
		e.force(min(x.surplus, uint64(used)), now)
	default:
		e.join(it, &x, now)
	}
	for i := range it.counts {
		c := &it.counts[i]
		if c.origin == n.id {
			continue
		}
		h := e.of(c.origin)
		if h != nil && !c.newer(&h.count) && (c.number <= h.number || c.born != h.born) {
			continue
		}
		at := e.idle - e.gives(c.at, now) // it was right then, and may lack something since
		if h != nil {
			at = max(at, h.idle)
		}
		h = e.hear(c.origin, c.at)
		h.count, h.idle = c.count, at
	}
}

// join makes the state one of all that two nodes know, of which each knows some that the
// other one does not. What was taken when is known of neither, but it is at least
//
//	what is used here, and what the other one took of which nothing is known here, but for
//	what could have been taken here since and was not
//
//	what is used there
//
//	what was taken since either was as untouched last, here and there, if neither knew of
//	the other: each of them counts what came back meanwhile, and it came back once
func (e *entry) join(it *item, x *difference, now stint.Instant) {
	more := net(x.taken, x.given)
	before, there := e.limit.ForStores().Used(&e.state, now), e.limit.ForStores().Used(&it.state, now)
	state, here, stretch := stint.State{}, e.busy(now), busy{}
	sum := more > 0 && x.surplus > 0 && here.taken > 0 && it.busy.taken > 0 && x.both < max(here.since, it.busy.since)
	if sum {
		e.sum(&state, here, it.busy, now)
	}
	absorbed := e.absorb(more, x.since)
	switch {
	case x.surplus == 0 && e.base == nil:
		it.state.CopyTo(&e.state)
		stretch = it.busy
	case more > 0:
		e.force(more-absorbed, now)
	case x.given > x.taken:
		e.refund(x.given-x.taken, x.since, now)
	}
	if there > e.limit.ForStores().Used(&e.state, now) {
		it.state.CopyTo(&e.state)
		stretch = it.busy
	}
	if sum && e.limit.ForStores().Used(&state, now) > e.limit.ForStores().Used(&e.state, now) {
		state.CopyTo(&e.state)
		stretch = busy{min(here.since, it.busy.since), here.taken + it.busy.taken, now}
	}
	e.was(stretch, now)
	if e.kind != other { // what was not absorbed after all can be later
		e.idle += int64(absorbed) - max(0, int64(more)-max(0, e.limit.ForStores().Used(&e.state, now)-before))
	}
}

// sum makes a state that of two stretches, of which each counts as coming back what came back
// once.
func (e *entry) sum(st *stint.State, a, b busy, now stint.Instant) {
	since := min(a.since, b.since)
	if e.kind == bucket {
		st.T, st.Written = int64(since)+a.taken+b.taken, now
	} else if used := a.taken + b.taken - e.gives(since, now); used > 0 {
		e.limit.Force(st, now, uint64(used))
	}
}

// difference is what two nodes know of a key: one lacks something, or has a surplus.
type difference struct {
	lacks        bool
	taken, given uint64 // what is lacking
	since        int64  // idleness when that was complete
	strange      bool   // some of it is of a node of which nothing was heard
	reset        bool   // some of it came after a reset
	surplus      uint64

	both stint.Instant // before this was taken all that both know of
}

// compare says what is known of an entry here and by another node.
func (n *Node) compare(e *entry, it *item) (x difference) {
	x.since, x.both = math.MaxInt64, e.based
	seen := make(map[uint64]bool, len(it.counts))
	for i := range it.counts {
		c := &it.counts[i]
		seen[c.origin] = true
		mine, since, told := count{}, int64(0), c.at
		if c.origin == n.id {
			mine = e.own
		} else if h := e.of(c.origin); h != nil {
			mine, since, told = h.count, h.idle, h.at
			if mine.newer(&c.count) {
				told = c.at
			} else if mine == c.count {
				told = max(told, c.at)
			}
		}
		if mine.taken > 0 {
			x.both = max(x.both, told.Add(lateAfter*n.interval))
		}
		switch {
		case c.origin == n.id && c.born != mine.born: // of an earlier time, over by now
			// The present one is not known there.
			x.surplus += net(mine.taken, mine.given)
		case c.newer(&mine):
			taken, given := c.beyond(&mine)
			x.taken, x.given, x.lacks = x.taken+taken, x.given+given, true
			x.since = min(x.since, since)
			x.strange = x.strange || c.born > mine.born && !n.bornSince(c)
			x.reset = x.reset || c.reset && c.born > mine.born
		case mine.newer(&c.count):
			x.surplus += net(mine.beyond(&c.count))
		}
	}
	for i := range e.heard {
		if h := &e.heard[i]; !seen[h.origin] {
			x.surplus += net(h.taken, h.given)
		}
	}
	if !seen[n.id] {
		x.surplus += net(e.own.taken, e.own.given)
	}
	return x
}

// bornSince says whether a count began after all that was heard of its node.
func (n *Node) bornSince(c *whose) bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	o := n.session.origins[c.origin]
	return o != nil && o.whole != 0 && c.born > o.number
}
