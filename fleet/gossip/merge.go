package gossip

import (
	"math"

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
		at := e.idle - e.refilled(c.At, now) // right at that time; may be too low by now
		if h != nil {
			at = max(at, h.idle)
		}
		h = e.counterOf(c.Origin, c.At)
		h.Count, h.idle = c.Count, at
	}
}

// combine sets the state from what two nodes know, when each knows takes that the other does not.
// Neither knows the time of each take. The use is at least the largest of
//
//   - the use here, plus what the other node knows and this one does not, less what was idle here
//   - the use there
//   - the sum of the last stretches of use here and there, less what came back in that time, if
//     neither node knew of the other's takes; both counted what came back, and it came back once
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
	if e.kind != other { // idle units that were not needed after all remain
		e.idle += int64(absorbed) - max(0, int64(more)-max(0, e.limit.ForStores().Used(&e.state, now)-before))
	}
}

// addStretches sets a state to the use of two stretches together, and lets units come back only
// once.
func (e *entry) addStretches(st *stint.State, a, b busy, now stint.Instant) {
	since := min(a.since, b.since)
	if e.kind == bucket {
		st.T, st.Written = int64(since)+a.taken+b.taken, now
	} else if used := a.taken + b.taken - e.refilled(since, now); used > 0 {
		e.limit.Force(st, now, uint64(used))
	}
}

// difference is how the counts of two nodes for a key differ.
type difference struct {
	lacks        bool
	taken, given uint64 // units that the other node knows and this one does not
	since        int64  // the node's idle count at the time when it last knew all of these units
	unknown      bool   // some are of a node that this one never received a report from
	reset        bool   // some were taken after a reset
	surplus      uint64

	agreed stint.Instant // both nodes know all takes before this time
}

// compare compares the counts of an entry here and on another node.
func (n *Node) compare(e *entry, it *wire.Entry) (x difference) {
	x.since, x.agreed = math.MaxInt64, e.baseAt
	seen := make(map[uint64]bool, len(it.Counts))
	for i := range it.Counts {
		c := &it.Counts[i]
		seen[c.Origin] = true
		mine, since, reported := wire.Count{}, int64(0), c.At
		if c.Origin == n.id {
			mine = e.own
		} else if h := e.findCounter(c.Origin); h != nil {
			mine, since, reported = h.Count, h.idle, h.at
			if mine.Newer(&c.Count) {
				reported = c.At
			} else if mine == c.Count {
				reported = max(reported, c.At)
			}
		}
		if mine.Taken > 0 {
			x.agreed = max(x.agreed, reported.Add(staleAfter*n.interval))
		}
		switch {
		case c.Origin == n.id && c.Born != mine.Born: // from an earlier count of this node, which has ended
			// The other node does not know the current count.
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

// bornSince reports whether a count began after the last report received from its node.
func (n *Node) bornSince(c *wire.OriginCount) bool {
	n.session.mu.Lock()
	defer n.session.mu.Unlock()
	o := n.session.origins[c.Origin]
	return o != nil && o.complete != 0 && c.Born > o.upTo
}
