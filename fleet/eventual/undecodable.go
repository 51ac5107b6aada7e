package eventual

import (
	"slices"

	"stint"
)

// divide ends a message of which the store cannot read some states: these takes of its call.
// Nothing of it was charged now. What can be read is told by a message of its own, with the
// next round; the rest again after a while, until somebody has mended it.
//
// An earlier attempt may have been charged whose answer was lost, or still be on its way. So
// each part takes a unit of its receipt: if it was charged that is denied, and nothing is
// charged again; if it was not it cannot be any more.
func (n *Node) divide(req *Request, undecodable []int, now stint.Instant) {
	receipts := len(req.Call.Takes) - len(req.items)
	well, bad := req.split(undecodable), req.split(undecodable)
	bad.undecodable, bad.begun = true, now
	whole := true // all that is left of it cannot be read
	for i := range req.items {
		it := &req.items[i]
		if !slices.Contains(undecodable, receipts+i) {
			well.items, whole = append(well.items, *it), false
		} else if n.markUndecodable(it, now) {
			bad.items = append(bad.items, *it)
		} else {
			whole = false
		}
	}
	if whole && !slices.ContainsFunc(undecodable, func(i int) bool { return i < receipts }) {
		bad, req.undecodable = req, true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(well.items) > 0 {
		n.parts = append(n.parts, well)
	}
	if len(bad.items) > 0 {
		n.undecodable = append(n.undecodable, bad)
	}
}

// split returns a message that is part of this one, and about nothing so far.
func (req *Request) split(undecodable []int) *Request {
	part := &Request{Call: new(stint.Call), kind: push, server: req.server}
	for i := range len(req.Call.Takes) - len(req.items) {
		if !slices.Contains(undecodable, i) { // who wrote over a receipt has destroyed it
			void := req.Call.Takes[i]
			void.Cost = 1
			part.voidReceipts = append(part.voidReceipts, void)
		}
	}
	return part
}

// markUndecodable notes that the store cannot read the state of a key; false if there is nothing to tell
// it: then the key is known here no more, and the store is asked for each take.
func (n *Node) markUndecodable(it *item, now stint.Instant) bool {
	e := it.entry
	if e.undecodable.CompareAndSwap(0, max(1, int64(now))) {
		n.undecodableKeys.Add(1)
	}
	e.mu.Lock()
	keep := it.units != 0 || e.unsent != 0 || e.late != 0
	e.dead = !keep
	e.mu.Unlock()
	if !keep {
		n.remove(e)
	}
	return keep
}

// clearUndecodable notes that the store can read the state of a key, or that the key is not known here any
// more.
func (n *Node) clearUndecodable(e *entry) {
	if e.undecodable.Swap(0) != 0 {
		n.undecodableKeys.Add(-1)
	}
}
