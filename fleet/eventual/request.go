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

// Request is what a node asks the store: whoever gets one puts Call to it, and then hands both
// to End.
type Request struct {
	// Call is to be decided by the store.
	Call *stint.Call

	kind   kind
	items  []item
	server *server // of messages
	begun  stint.Instant

	undecodable  bool         // the store cannot read the state of any item
	voidReceipts []stint.Take // a unit of each receipt of messages that it was part of
}

// item is an entry that a request is about, and what it is told: by the last takes of the call,
// in order.
type item struct {
	entry *entry
	limit *stint.Limit
	units int64
	at    stint.Instant // when the first was taken, by the store's clock
}

// kind is what a request is for.
type kind uint8

const (
	ask       kind = iota // a call that the store decides, and says of one key what it knows
	read                  // looks at keys of a call that is decided here after that
	push                  // says what was taken here
	readClock             // asks what time it is
)

// Next is what is to be done about a call after a request.
type Next uint8

const (
	// Done says that it has its answer, or the error of End.
	Done Next = iota
	// Again says that it is to be begun once more.
	Again
	// AskStore says that it is to be begun once more, without patience: the store could not say
	// what it knows.
	AskStore
)

// receipt is charged together with a push, all of it, so that it is charged once. A part of a
// push takes one unit of that push's receipt besides: of both only one passes.
var receipt = stint.MustLimit(stint.Spec{Requests: receiptUnits, Per: 5 * time.Minute, FromFirst: true})

// ownHandling is how a node's own messages are handled, of keys that stand where their key says.
var ownHandling = &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}, OnFailure: stint.Fail}

// receiptUnits is more than a push ever has parts.
const receiptUnits = 1 << 20

// seal writes the call of a push. It is charged as of when the first of it was taken.
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

// receipt returns the take that is charged together with a push, on the same server.
func (n *Node) receipt(e *entry) stint.Take {
	return stint.Take{
		Key: stint.Key(n.name + strconv.FormatUint(n.receipts.Add(1), 36)), Limit: receipt, Cost: receiptUnits,
		Handling: &stint.Handling{Place: cmp.Or(e.place, e.key), OnFailure: stint.Fail},
	}
}

// End takes the store's answer to a request, or the error instead of one, and says what is to be
// done about the call that it was begun for.
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

// setServerClock sets the clock of a part of the store by an answer.
func (n *Node) setServerClock(req *Request, now stint.Instant) {
	h := req.server
	if h == nil && len(req.items) > 0 {
		h = req.items[0].entry.server
	}
	if d := req.Call.Results; h != nil && len(d) > 0 && !d[0].Degraded {
		h.setClock(d[0].At, now)
	}
}

// endRead ends looks at keys of a call. Where some cannot be read the store says so about the
// call itself.
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

// applyRead puts into an entry what the store said of its key, or gives it up.
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

// refreshLater has the node look again at keys that a call changed at the store, or parts of it
// where that could not read all states.
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

// endPush ends a message. One without an answer is repeated as it is.
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

// acknowledge puts into an entry what the store said when it was told.
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
