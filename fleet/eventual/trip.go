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

// Trip is what a node asks the store: whoever gets one puts Call to it, and then hands both
// to End.
type Trip struct {
	// Call is to be decided by the store.
	Call *stint.Call

	kind  kind
	items []item
	home  *home // of messages
	begun stint.Instant

	undecodable bool         // the store cannot read the state of any item
	voids       []stint.Take // a unit of each receipt of messages that it was part of
}

// item is an entry that a trip is about, and what it is told: by the last takes of the call,
// in order.
type item struct {
	entry *entry
	limit *stint.Limit
	units int64
	at    stint.Instant // when the first was taken, by the store's clock
}

// kind is what a trip is for.
type kind uint8

const (
	ask       kind = iota // a call that the store decides, and says of one key what it knows
	read                  // looks at keys of a call that is decided here after that
	push                  // says what was taken here
	clockLook             // asks what time it is
)

// Next is what is to be done about a call after a trip.
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

// own is how a node's own messages are handled, of keys that stand where their key says.
var own = &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}, OnFailure: stint.Fail}

// receiptUnits is more than a push ever has parts.
const receiptUnits = 1 << 20

// seal writes the call of a push. It is charged as of when the first of it was taken.
func (trip *Trip) seal(n *Node) {
	if trip.kind != push || len(trip.Call.Takes) > 0 {
		return
	}
	at := stint.Instant(0)
	for i := range trip.items {
		if it := &trip.items[i]; it.units != 0 && (at == 0 || it.at < at) {
			at = it.at
		}
	}
	if trip.Call.At = at; at != 0 {
		trip.Call.Takes = append(append(trip.Call.Takes, trip.voids...), n.receipt(trip.items[0].entry))
	}
	for i := range trip.items {
		it := &trip.items[i]
		t := stint.Take{Key: it.entry.key, Limit: it.limit, Handling: own}
		if it.entry.place != "" {
			t.Handling = &stint.Handling{Terms: own.Terms, Place: it.entry.place, OnFailure: stint.Fail}
		}
		switch {
		case it.units > 0:
			t.Op, t.Cost = stint.Force, uint32(it.units)
		case it.units < 0:
			t.Op, t.Cost = stint.Refund, uint32(-it.units)
		}
		trip.Call.Takes = append(trip.Call.Takes, t)
	}
}

// receipt returns the take that is charged together with a push, on the same server.
func (n *Node) receipt(e *entry) stint.Take {
	return stint.Take{
		Key: stint.Key(n.name + strconv.FormatUint(n.receipts.Add(1), 36)), Limit: receipt, Cost: receiptUnits,
		Handling: &stint.Handling{Place: cmp.Or(e.place, e.key), OnFailure: stint.Fail},
	}
}

// End takes the store's answer to a trip, or the error instead of one, and says what is to be
// done about the call that it was begun for.
func (n *Node) End(trip *Trip, now stint.Instant, err error) (Next, error) {
	if err == nil && trip.Call.At == 0 {
		n.receive(trip, now)
	}
	switch trip.kind {
	case push:
		n.endPush(trip, now, err)
	case read:
		return n.endRead(trip, now, err)
	case ask:
		for i := range trip.items {
			n.install(&trip.items[i], trip.Call, 0, now, err)
		}
		n.touched(trip.Call, err)
	}
	return Done, err
}

// receive sets the clock of a part of the store by an answer.
func (n *Node) receive(trip *Trip, now stint.Instant) {
	h := trip.home
	if h == nil && len(trip.items) > 0 {
		h = trip.items[0].entry.home
	}
	if d := trip.Call.Results; h != nil && len(d) > 0 && !d[0].Degraded {
		h.receive(d[0].At, now)
	}
}

// endRead ends looks at keys of a call. Where some cannot be read the store says so about the
// call itself.
func (n *Node) endRead(trip *Trip, now stint.Instant, err error) (Next, error) {
	undecodable, some := errors.AsType[*stint.CorruptState](err)
	all := true
	for i := range trip.items {
		failed := err
		if some && !slices.Contains(undecodable.Takes, i) {
			failed = nil
		}
		all = n.install(&trip.items[i], trip.Call, i, now, failed) && all
	}
	switch {
	case err != nil && !some:
		return Done, err
	case !all:
		return AskStore, nil
	}
	return Again, nil
}

// install puts into an entry what the store said of its key, or gives it up.
func (n *Node) install(it *item, call *stint.Call, i int, now stint.Instant, err error) bool {
	e := it.entry
	ok := err == nil && !call.Results[i].Degraded
	e.mu.Lock()
	if ok {
		e.landLocked(it.limit, &call.Results[i], now)
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

// touched has the node look again at keys that a call changed at the store, or parts of it
// where that could not read all states.
func (n *Node) touched(call *stint.Call, err error) {
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
		if e := n.keys.find(n.keys.print(t), t); e != nil {
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
func (n *Node) endPush(trip *Trip, now stint.Instant, err error) {
	results := trip.Call.Results
	for i := range results {
		if err == nil && results[i].Degraded {
			err = errDegraded
		}
	}
	if undecodable, ok := errors.AsType[*stint.CorruptState](err); ok && !errors.Is(err, stint.ErrUnknown) {
		trip.home.failing.Store(0)
		n.divide(trip, undecodable.Takes, now)
		return
	}
	if err != nil {
		trip.home.failing.CompareAndSwap(0, max(1, int64(trip.begun)))
		n.mu.Lock()
		n.unsure = append(n.unsure, trip)
		n.mu.Unlock()
		return
	}
	trip.home.failing.Store(0)
	results = results[len(results)-len(trip.items):]
	for i := range trip.items {
		n.acknowledge(&trip.items[i], &results[i], now)
	}
}

// acknowledge puts into an entry what the store said when it was told.
func (n *Node) acknowledge(it *item, d *stint.Decision, now stint.Instant) {
	e := it.entry
	n.unbar(e)
	e.mu.Lock()
	e.sent = false
	e.landLocked(it.limit, d, now)
	more := e.unsent != 0 || e.late != 0
	e.dead = e.leaves && !more
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
		n.rest = append(n.rest, e)
		n.mu.Unlock()
	case more:
		n.enqueue(e)
	}
}
