package eventual

import (
	"slices"
	"time"

	"stint"
)

// maxItems is how many keys are in a message.
const maxItems = 64

// clockEvery is how often a node looks what time it is by the store's clock.
const clockEvery = stint.Instant(time.Second / time.Microsecond)

// retryUndecodable is how often it is tried to tell the store of keys whose states it could not read.
const retryUndecodable = stint.Instant(time.Second / time.Microsecond)

// round is the messages that a node makes at a time.
type round struct {
	node     *Node
	now      stint.Instant
	requests []*Request
	last     map[batch]*Request
	tried    map[*server]bool // while nothing comes through
}

// batch says which messages are alike: about keys of one part, and of what can be charged
// as of the same time.
type batch struct {
	server *server
	old    bool          // taken long ago
	window stint.Instant // in a window that began then; 0: before all of it, or in a bucket
}

// batchOf returns where an item belongs.
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

// Tick returns the messages of a node about all keys that were asked for since the last: what
// was taken here, or a look. Each is about keys of one part of the store, and those that had
// no answer come first, as they were. While nothing comes through there is one for each part,
// to see when it does. When all of them have ended there may be a Rest.
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

// retry repeats a message, unless that has to wait: for the next tick while nothing comes
// through, and for a while where the store cannot read what it is about.
func (r *round) retry(req *Request) bool {
	if r.tried[req.server] && req.server.failing.Load() != 0 || req.undecodable && r.now-req.begun < retryUndecodable {
		return false
	}
	r.tried[req.server] = true
	r.node.count.repeated.Add(uint64(len(req.items)))
	r.requests = append(r.requests, req)
	return true
}

// sendParts tells what else was in messages of which some could not be read.
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

// Later returns what there is to say yet of windows that ended since the tick before: what
// was taken in the next ones can only be told when that has been acknowledged. It returns
// too what was in a message with keys whose states the store cannot read.
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

// send adds to the messages what there is to say of an entry, which may be in the queue all
// the same.
func (r *round) send(e *entry) {
	if e.server.failing.Load() != 0 && r.tried[e.server] {
		r.node.enqueue(e) // when something comes through
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.reading != nil || e.sent { // who is being told of is queued again by that
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

// clip returns what of units fits into a take.
func clip(units int64) int64 { return max(-stint.MaxCost, min(units, stint.MaxCost)) }

// newRequest begins a message.
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

// sweepAll gives back places of keys that there is nothing to know of.
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
