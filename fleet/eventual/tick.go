package eventual

import (
	"slices"
	"time"

	"stint"
)

// maxItems is the number of keys in one message.
const maxItems = 64

// clockEvery is how often a node reads the store's clock.
const clockEvery = stint.Instant(time.Second / time.Microsecond)

// retryUndecodable is how often a report about undecodable states is repeated.
const retryUndecodable = stint.Instant(time.Second / time.Microsecond)

// round collects the messages that a node sends at a time.
type round struct {
	node     *Node
	now      stint.Instant
	requests []*Request
	last     map[batch]*Request
	tried    map[*server]bool // servers with a message in this round
}

// batch identifies the items that may share a message: keys of one server with units that may be
// charged at the same time.
type batch struct {
	server *server
	old    bool          // the units were taken long ago
	window stint.Instant // start of the window of the units; 0: a bucket, or recent units of a window that began earlier
}

// batchOf returns the batch of an item.
func (r *round) batchOf(it *item) batch {
	e := it.entry
	w := batch{server: e.server}
	if it.units == 0 {
		return w
	}
	lately := e.server.now(r.now) - 2*r.node.interval
	w.old = it.at < lately
	if e.per > 0 {
		if start := it.at - it.at%stint.Instant(e.per); w.old || start > lately {
			w.window = start
		}
	}
	return w
}

// Tick returns the messages about all keys that were used since the last tick. Each message is
// about keys of one server of the store. It reports the units taken here, or reads the state.
// Messages without an answer come first, unchanged. A server that does not answer gets one
// message, to notice when it answers again. When all requests have ended, call Later.
func (n *Node) Tick(now stint.Instant) []*Request {
	n.sweepAll(now)
	r := n.round(now)
	n.mu.Lock()
	for _, again := range [...]*[]*Request{&n.unanswered, &n.undecodable} {
		*again = slices.DeleteFunc(*again, r.retry)
	}
	n.mu.Unlock()
	r.sendParts()
	for e := n.queue.Swap(nil); e != nil; {
		next := e.next
		e.next = nil
		e.queued.Store(false)
		r.send(e)
		e = next
	}
	return r.end()
}

// retry repeats a message, unless it must wait: for the next tick while the server does not
// answer, and for a second if the store cannot read its states.
func (r *round) retry(req *Request) bool {
	if r.tried[req.server] && req.server.failing.Load() != 0 || req.undecodable && r.now-req.begun < retryUndecodable {
		return false
	}
	r.tried[req.server] = true
	r.node.count.repeated.Add(uint64(len(req.items)))
	r.requests = append(r.requests, req)
	return true
}

// sendParts sends the readable parts of reports with undecodable states.
func (r *round) sendParts() {
	n := r.node
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, req := range n.parts {
		r.tried[req.server] = true
		r.requests = append(r.requests, req)
	}
	n.parts = nil
}

// Later returns messages that had to wait for the answers of the last tick: units of the next
// windows, and the readable parts of reports with undecodable states.
func (n *Node) Later(now stint.Instant) []*Request {
	r := n.round(now)
	r.sendParts()
	n.mu.Lock()
	rest := n.later
	n.later = nil
	n.mu.Unlock()
	for _, e := range rest {
		r.send(e)
	}
	return r.end()
}

func (n *Node) round(now stint.Instant) *round {
	return &round{node: n, now: now, last: map[batch]*Request{}, tried: map[*server]bool{}}
}

// end returns the messages, ready to be sent.
func (r *round) end() []*Request {
	for _, req := range r.requests {
		req.seal(r.node)
		req.begun = r.now
		r.node.count.messages.Add(1)
	}
	return r.requests
}

// send adds the counts of an entry to the messages. The entry may be in the queue too.
func (r *round) send(e *entry) {
	if e.server.failing.Load() != 0 && r.tried[e.server] {
		r.node.enqueue(e) // wait until the server answers
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.reading != nil || e.sent { // the end of the report in flight enqueues it again
		return
	}
	it := item{entry: e, limit: e.limit}
	if e.late != 0 {
		it.units, it.at = clip(e.late), e.lateAt
		e.late -= it.units
	} else if e.unsent != 0 {
		it.units, it.at = clip(e.unsent), e.since
		e.unsent -= it.units
	} else {
		r.node.count.peeks.Add(1)
	}
	e.sent = true
	at := r.batchOf(&it)
	req := r.last[at]
	if req == nil || len(req.items) == maxItems {
		req = r.newRequest(at)
	}
	req.items = append(req.items, it)
}

// clip limits units to the range of a cost.
func clip(units int64) int64 { return max(-stint.MaxCost, min(units, stint.MaxCost)) }

// newRequest starts a message.
func (r *round) newRequest(at batch) *Request {
	h := at.server
	req := &Request{Call: new(stint.Call), kind: push, server: h}
	r.requests, r.last[at] = append(r.requests, req), req
	r.tried[h] = true
	if r.now-stint.Instant(h.lastAnswer.Load()) >= clockEvery {
		h.lastAnswer.Store(int64(r.now))
		look := stint.Take{Key: stint.Key(r.node.name), Handling: &stint.Handling{Place: h.place, OnFailure: stint.Fail}, Limit: receipt}
		r.requests = append(r.requests, &Request{Call: &stint.Call{Takes: []stint.Take{look}}, kind: readClock, server: h})
	}
	return req
}

// sweepAll removes some untouched entries of each pool.
func (n *Node) sweepAll(now stint.Instant) {
	n.sweep(n.commonPool, now)
	n.poolsMu.Lock()
	all := make([]*pool, 0, len(n.poolsByRule))
	for _, p := range n.poolsByRule {
		all = append(all, p)
	}
	n.poolsMu.Unlock()
	for _, p := range all {
		n.sweep(p, now)
	}
}
