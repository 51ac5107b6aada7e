package eventual

import (
	"slices"

	"stint"
)

// divide ends a report of which the store cannot read some states. The argument lists the takes
// of its call that have them. The store charged nothing of it now. A report of its own sends the
// readable part with the next round. The rest is repeated at intervals until somebody repairs the
// states.
//
// An earlier attempt whose answer was lost may have been charged, or may still be in flight.
// Therefore each part takes a unit of the report's receipt. If the report was charged, the
// receipt is used up and the part is denied. If it was not, the part makes it impossible.
func (n *Node) divide(req *Request, undecodable []int, now stint.Instant) {
	receipts := len(req.Call.Takes) - len(req.items)
	well, bad := req.split(undecodable), req.split(undecodable)
	bad.undecodable, bad.begun = true, now
	whole := true // nothing of it can be read
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

// split returns an empty report that is part of this one.
func (req *Request) split(undecodable []int) *Request {
	part := &Request{Call: new(stint.Call), kind: push, server: req.server}
	for i := range len(req.Call.Takes) - len(req.items) {
		if !slices.Contains(undecodable, i) { // a receipt that cannot be read was overwritten
			void := req.Call.Takes[i]
			void.Cost = 1
			part.voidReceipts = append(part.voidReceipts, void)
		}
	}
	return part
}

// markUndecodable notes that the store cannot read the state of a key. If there are no counts to
// send, it removes the key and returns false; the store then gets each take.
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

// clearUndecodable notes that the store can read the state of a key, or that the key was removed.
func (n *Node) clearUndecodable(e *entry) {
	if e.undecodable.Swap(0) != 0 {
		n.undecodableKeys.Add(-1)
	}
}
