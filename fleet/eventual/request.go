package eventual

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"stint"
	"stint/internal/transaction"
)

// Request is one call of a node to the store. Its owner lets the store decide Call and then
// passes the request to End.
type Request struct {
	// Call is the call that the store must decide.
	Call *stint.Call

	kind   kind
	items  []item
	server *server // that a report is for
	begun  stint.Instant

	undecodable  bool         // the store cannot read the state of any item
	voidReceipts []stint.Take // one unit of the receipt of each report that this one is a part of
}

// item is an entry of a request, with the units to report. The last takes of the call are those
// of the items, in order.
type item struct {
	entry *entry
	limit *stint.Limit
	units int64
	at    stint.Instant // time of the first unit, by the store's clock
}

// kind is the purpose of a request.
type kind uint8

const (
	ask       kind = iota // the store decides a call, and the answer is the state of one key
	read                  // reads keys of a call that the node then decides
	push                  // reports the units taken here
	readClock             // reads the store's clock
)

// Next is what to do with a call after a request.
type Next uint8

const (
	// Done means that the call is decided, or failed with the error of End.
	Done Next = iota
	// Again means to call Begin again.
	Again
	// AskStore means to call Begin again without patience: the store could not read a key.
	AskStore
)

// receipt is the limit of receipts. A report charges a receipt of its own in full, so that it is
// charged once only. A part of a report also takes one unit of the report's receipt, so that only
// one of both passes.
var receipt = stint.MustLimit(stint.Spec{Requests: receiptUnits, Per: 5 * time.Minute, FromFirst: true})

// ownHandling is the handling of a node's own messages, for keys without a place.
var ownHandling = &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}, OnFailure: stint.Fail}

// receiptUnits is more than the number of parts of any report.
const receiptUnits = 1 << 20

// seal builds the call of a report. It is charged at the time of its first unit.
func (req *Request) seal(n *Node) {
	if req.kind != push || len(req.Call.Takes) > 0 {
		return
	}
	at := stint.Instant(0)
	for i := range req.items {
		if it := &req.items[i]; it.units != 0 && (at == 0 || it.at < at) {
			at = it.at
		}
	}
	if req.Call.At = at; at != 0 {
		req.Call.Takes = append(append(req.Call.Takes, req.voidReceipts...), n.receipt(req.items[0].entry))
	}
	for i := range req.items {
		it := &req.items[i]
		t := stint.Take{Key: it.entry.key, Limit: it.limit, Handling: ownHandling}
		if it.entry.place != "" {
			t.Handling = &stint.Handling{Terms: ownHandling.Terms, Place: it.entry.place, OnFailure: stint.Fail}
		}
		switch {
		case it.units > 0:
			t.Op, t.Cost = stint.Force, uint32(it.units)
		case it.units < 0:
			t.Op, t.Cost = stint.Refund, uint32(-it.units)
		}
		req.Call.Takes = append(req.Call.Takes, t)
	}
}

// receipt returns the take of the receipt of a report, on the same server.
func (n *Node) receipt(e *entry) stint.Take {
	return stint.Take{
		Key: stint.Key(n.name + strconv.FormatUint(n.receipts.Add(1), 36)), Limit: receipt, Cost: receiptUnits,
		Handling: &stint.Handling{Place: cmp.Or(e.place, e.key), OnFailure: stint.Fail},
	}
}

// End applies the store's answer to a request, or the error err. It returns what to do with the
// call that the request was made for.
func (n *Node) End(req *Request, now stint.Instant, err error) (Next, error) {
	if err == nil && req.Call.At == 0 {
		n.setServerClock(req, now)
	}
	switch req.kind {
	case push:
		n.endPush(req, now, err)
	case read:
		return n.endRead(req, now, err)
	case ask:
		for i := range req.items {
			n.applyRead(&req.items[i], req.Call, 0, now, err)
		}
		n.refreshLater(req.Call, err)
	}
	return Done, err
}

// setServerClock sets the clock of a server from an answer.
func (n *Node) setServerClock(req *Request, now stint.Instant) {
	h := req.server
	if h == nil && len(req.items) > 0 {
		h = req.items[0].entry.server
	}
	if d := req.Call.Results; h != nil && len(d) > 0 && !d[0].Degraded {
		h.setClock(d[0].At, now)
	}
}

// endRead ends the reading of keys of a call. If some cannot be read, the store decides the call
// and returns the error.
func (n *Node) endRead(req *Request, now stint.Instant, err error) (Next, error) {
	undecodable, some := errors.AsType[*stint.CorruptState](err)
	all := true
	for i := range req.items {
		failed := err
		if some && !slices.Contains(undecodable.Takes, i) {
			failed = nil
		}
		all = n.applyRead(&req.items[i], req.Call, i, now, failed) && all
	}
	switch {
	case err != nil && !some:
		return Done, err
	case !all:
		return AskStore, nil
	}
	return Again, nil
}

// applyRead sets an entry to the store's answer, or removes it if there is none.
func (n *Node) applyRead(it *item, call *stint.Call, i int, now stint.Instant, err error) bool {
	e := it.entry
	ok := err == nil && !call.Results[i].Degraded
	e.mu.Lock()
	if ok {
		e.applyAnswerLocked(it.limit, &call.Results[i], now)
		e.used = true
	} else {
		e.dead = true
	}
	close(e.reading)
	e.reading = nil
	e.mu.Unlock()
	if !ok {
		n.remove(e)
	}
	return ok
}

// refreshLater enqueues the keys that a call changed at the store, so that the next tick reads
// them.
func (n *Node) refreshLater(call *stint.Call, err error) {
	undecodable := transaction.Undecodable(err)
	if err != nil && undecodable == nil {
		return
	}
	for i := range call.Takes {
		t := &call.Takes[i]
		if !transaction.Decided(call, undecodable, i) {
			continue
		}
		if t.Coordination() != stint.Eventual || t.Limit == nil || t.Limit.Algorithm() == stint.Unlimited {
			continue
		}
		if e := n.keys.find(n.keys.fingerprint(t), t); e != nil {
			if t.Op == stint.Reset {
				e.mu.Lock()
				e.state, e.unsent, e.late = stint.State{}, 0, 0
				e.mu.Unlock()
			}
			n.enqueue(e)
		}
	}
}

// endPush ends a report. One without an answer is repeated unchanged.
func (n *Node) endPush(req *Request, now stint.Instant, err error) {
	results := req.Call.Results
	for i := range results {
		if err == nil && results[i].Degraded {
			err = errNotSent
		}
	}
	if undecodable, ok := errors.AsType[*stint.CorruptState](err); ok && !errors.Is(err, stint.ErrUnknown) {
		req.server.failing.Store(0)
		n.divide(req, undecodable.Takes, now)
		return
	}
	if err != nil {
		req.server.failing.CompareAndSwap(0, max(1, int64(req.begun)))
		n.mu.Lock()
		n.unanswered = append(n.unanswered, req)
		n.mu.Unlock()
		return
	}
	req.server.failing.Store(0)
	results = results[len(results)-len(req.items):]
	for i := range req.items {
		n.acknowledge(&req.items[i], &results[i], now)
	}
}

// acknowledge applies the store's answer to a report of an entry.
func (n *Node) acknowledge(it *item, d *stint.Decision, now stint.Instant) {
	e := it.entry
	n.clearUndecodable(e)
	e.mu.Lock()
	e.sent = false
	e.applyAnswerLocked(it.limit, d, now)
	more := e.unsent != 0 || e.late != 0
	e.dead = e.removed && !more
	left := e.dead
	urgent := more && e.per > 0 && it.units != 0 && int64(e.since)/e.per != int64(it.at)/e.per
	e.mu.Unlock()
	if it.units > 0 {
		n.count.units.Add(uint64(it.units))
	}
	switch {
	case left:
		n.remove(e)
	case urgent:
		n.mu.Lock()
		n.later = append(n.later, e)
		n.mu.Unlock()
	case more:
		n.enqueue(e)
	}
}
