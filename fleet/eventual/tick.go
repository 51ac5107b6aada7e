package eventual

import (
	"slices"
	"time"

	"stint"
)

// maxItems is how many keys are in a message.
const maxItems = 64

// hearEvery is how often a node looks what time it is by the store's clock.
const hearEvery = stint.Instant(time.Second / time.Microsecond)

// lookAgain is how often it is tried to tell the store of keys whose states it could not read.
const lookAgain = stint.Instant(time.Second / time.Microsecond)

// round is the messages that a node makes at a time.
type round struct {
	node  *Node
	now   stint.Instant
	trips []*Trip
	last  map[where]*Trip
	tried map[*home]bool // while nothing comes through
}

// where says which messages are alike: about keys of one part, and of what can be charged
// as of the same time.
type where struct {
	home   *home
	old    bool          // taken long ago
	window stint.Instant // in a window that began then; 0: before all of it, or in a bucket
}

// where returns where an item belongs.
func (r *round) where(it *item) where {
	e := it.entry
	w := where{home: e.home}
	if it.units == 0 {
		return w
	}
	lately := e.home.now(r.now) - 2*r.node.interval
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
func (n *Node) Tick(now stint.Instant) []*Trip {
	n.sweepAll(now)
	r := n.round(now)
	n.mu.Lock()
	for _, again := range [...]*[]*Trip{&n.unsure, &n.undecodable} {
		*again = slices.DeleteFunc(*again, r.again)
	}
	n.mu.Unlock()
	r.goOn()
	for e := n.queue.Swap(nil); e != nil; {
		next := e.next
		e.next = nil
		e.queued.Store(false)
		r.send(e)
		e = next
	}
	return r.end()
}

// again repeats a message, unless that has to wait: for the next tick while nothing comes
// through, and for a while where the store cannot read what it is about.
func (r *round) again(trip *Trip) bool {
	if r.tried[trip.home] && trip.home.failing.Load() != 0 || trip.undecodable && r.now-trip.begun < lookAgain {
		return false
	}
	r.tried[trip.home] = true
	r.node.count.repeated.Add(uint64(len(trip.items)))
	r.trips = append(r.trips, trip)
	return true
}

// goOn tells what else was in messages of which some could not be read.
func (r *round) goOn() {
	n := r.node
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, trip := range n.parts {
		r.tried[trip.home] = true
		r.trips = append(r.trips, trip)
	}
	n.parts = nil
}

// Rest returns what there is to say yet of windows that ended since the tick before: what
// was taken in the next ones can only be told when that has been acknowledged. It returns
// too what was in a message with keys whose states the store cannot read.
func (n *Node) Rest(now stint.Instant) []*Trip {
	r := n.round(now)
	r.goOn()
	n.mu.Lock()
	rest := n.rest
	n.rest = nil
	n.mu.Unlock()
	for _, e := range rest {
		r.send(e)
	}
	return r.end()
}

func (n *Node) round(now stint.Instant) *round {
	return &round{node: n, now: now, last: map[where]*Trip{}, tried: map[*home]bool{}}
}

// end returns the messages, ready to be sent.
func (r *round) end() []*Trip {
	for _, trip := range r.trips {
		trip.seal(r.node)
		trip.begun = r.now
		r.node.count.messages.Add(1)
	}
	return r.trips
}

// send adds to the messages what there is to say of an entry, which may be in the queue all
// the same.
func (r *round) send(e *entry) {
	if e.home.failing.Load() != 0 && r.tried[e.home] {
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
		r.node.count.looks.Add(1)
	}
	e.sent = true
	at := r.where(&it)
	trip := r.last[at]
	if trip == nil || len(trip.items) == maxItems {
		trip = r.trip(at)
	}
	trip.items = append(trip.items, it)
}

// clip returns what of units fits into a take.
func clip(units int64) int64 { return max(-stint.MaxCost, min(units, stint.MaxCost)) }

// trip begins a message.
func (r *round) trip(at where) *Trip {
	h := at.home
	trip := &Trip{Call: new(stint.Call), kind: push, home: h}
	r.trips, r.last[at] = append(r.trips, trip), trip
	r.tried[h] = true
	if r.now-stint.Instant(h.heard.Load()) >= hearEvery {
		h.heard.Store(int64(r.now))
		look := stint.Take{Key: stint.Key(r.node.name), Handling: &stint.Handling{Place: h.place, OnFailure: stint.Fail}, Limit: receipt}
		r.trips = append(r.trips, &Trip{Call: &stint.Call{Takes: []stint.Take{look}}, kind: clockLook, home: h})
	}
	return trip
}

// sweepAll gives back places of keys that there is nothing to know of.
func (n *Node) sweepAll(now stint.Instant) {
	n.sweep(n.common, now)
	n.naming.Lock()
	all := make([]*pool, 0, len(n.names))
	for _, p := range n.names {
		all = append(all, p)
	}
	n.naming.Unlock()
	for _, p := range all {
		n.sweep(p, now)
	}
}
