package gossip

import (
	"stint"
	"stint/fleet/gossip/wire"
)

// merge adds what another node knows of a key to what this node knows.
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
	if !e.limit.ForStores().Same(it.Limit) {
		e.limit.ForStores().Migrate(&it.State, it.Limit, now)
		e.limit.ForStores().Migrate(&it.Settled, it.Limit, now)
	}
	first := e.settledAt == 0
	if first && e.kind != other {
		e.settled, e.settledAt, e.next, e.nextAt = it.Settled, it.SettledAt, it.Settled, it.SettledAt
	}
	x := difference{}
	for i := range it.Counts {
		n.mergeCount(e, &it.Counts[i], &it.State, &x, first, now)
	}
	switch {
	case !x.lacks:
	case x.reset:
		it.State.CopyTo(&e.state)
		e.settle(e.state, now, stint.MaxInstant, now)
	case e.kind == other: // no debt outlasts a period
		e.debit(&e.state, min(x.units, uint64(e.limit.Capacity())), 0, now)
	default:
		e.raise(e.replay(now), now)
	}
	if x.lacks {
		e.raise(&it.State, now)
	}
	e.settle(e.settled, e.settledAt, 0, now) // the next one may lack units of these periods
}

// difference is how the counts of two nodes for a key differ.
type difference struct {
	lacks bool   // the other node knows units that this one does not
	reset bool   // some of these were taken after a reset
	units uint64 // of these, those of counts of which this node knows a part
}

// mergeCount adds the count of a node. It gives back what was given back, here and in the state
// there. In the first entry from another node the settled use there counts here.
func (n *Node) mergeCount(e *entry, it *wire.OriginCount, there *stint.State, x *difference, first bool, now stint.Instant) {
	missed := n.session.gaveUp(it.Origin, e.settledAt) || e.findCounter(it.Origin) == nil && !n.session.knew(it.Origin, e.settledAt)
	c := e.counterOf(it.Origin)
	if e.kind != other {
		if first && it.Base.Newer(&c.base) {
			c.base = it.Base
		}
		if c.add(it); missed { // nobody here waited for its reports then, and the times are too long ago
			c.forget(e.settledAt)
		}
		for i := range c.marks { // the settled use does not have these
			c.marks[i].At = max(c.marks[i].At, e.settledAt+1)
		}
	}
	if c == &e.own {
		return
	}
	if taken, given := c.Beyond(&it.Count); given > taken {
		e.debit(there, 0, given-taken, now)
	}
	if taken, given := it.Beyond(&c.Count); it.Newer(&c.Count) {
		x.lacks, x.reset = true, x.reset || it.Reset && it.Born > c.Born
		if given > taken {
			e.debit(&e.state, 0, given-taken, now)
		} else if it.Born == c.Born {
			x.units += taken - given
		}
	}
	if it.Newer(&c.Count) || it.Born == c.Born && it.Number > c.Number {
		c.Count = it.Count
	}
}
