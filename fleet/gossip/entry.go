package gossip

import (
	"math"
	"slices"
	"strings"

	"stint"
	"stint/fleet/gossip/wire"
)

// entry is what a node knows of a key: its state after all takes of this node and all reports of
// others, and how much of that each node took.
type entry struct {
	key   stint.Key
	limit *stint.Limit
	kind  kind
	plain bool    // denied takes change nothing
	rate  float64 // of a bucket, in units per microsecond
	per   int64   // length of a window in microseconds
	state stint.State
	terms *stint.Terms // of the last take on this node; nil: none
	place stint.Key    // of the key
	base  *stint.State // use that the store of another mode counts, which state includes; nil: not read

	since    stint.Instant // the counts here include all takes since then
	rested   stint.Instant // the last time at which the key was untouched
	lastBusy busy          // the last stretch of use before rested
	baseAt   stint.Instant // when base was read

	at       stint.Instant // time of the last update of the fields below
	idle     int64         // units that came back until then and that nobody needed
	fraction float64       // of the next idle unit
	spare    int64         // idle units of the previous window

	own      wire.Count
	reported uint64 // units of own.Taken in the last report
	late     uint64 // units of own.Taken that were taken in windows that have ended
	dirty    bool   // own changed since the last report
	counters []counter
}

// counter is the count of another node.
type counter struct {
	origin uint64
	idle   int64         // entry.idle at the last report of that node
	at     stint.Instant // time of that report
	wire.Count
}

// kind is how idle units of a limit are counted.
type kind uint8

const (
	other  kind = iota // they are not
	bucket             // units come back at a steady rate
	window             // units come back at multiples of the window's length
)

func newEntry(key stint.Key, limit *stint.Limit, now stint.Instant) *entry {
	e := &entry{key: key, at: now, since: now, rested: now}
	e.setLimit(limit)
	return e
}

// setLimit sets the limit of an entry.
func (e *entry) setLimit(l *stint.Limit) {
	s := l.Spec()
	e.limit, e.kind, e.plain = l, other, !s.CountDenied && !s.Overdraw
	switch {
	case s.Algorithm == stint.FixedWindow && !s.FromFirst && s.Calendar == stint.NoPeriod:
		e.kind, e.per = window, s.Per.Microseconds()
	case s.Algorithm == stint.TokenBucket && !s.Step && !s.Reserve, s.Algorithm == stint.LeakyBucket:
		e.kind = bucket
		e.rate = float64(s.Requests) / float64(s.Per.Microseconds())
	}
}

// changeLimit moves the state to a limit with other numbers.
func (e *entry) changeLimit(l *stint.Limit, now stint.Instant) {
	if l == e.limit {
		return
	}
	if !l.ForStores().Same(e.limit) {
		if e.base != nil {
			l.ForStores().Migrate(e.base, e.limit, now)
		}
		l.ForStores().Migrate(&e.state, e.limit, now)
	}
	e.setLimit(l)
}

// setTerms stores the rule of a take.
func (e *entry) setTerms(t *stint.Take) {
	terms := t.Terms()
	if e.terms == terms {
		return
	}
	e.terms, e.place = terms, ""
	if terms != nil {
		e.place = stint.Key(strings.Clone(string(t.Handling.Place)))
	}
}

// advance counts idle units up to now.
func (e *entry) advance(now stint.Instant) {
	if now <= e.at {
		return
	}
	switch e.kind {
	case bucket:
		if from := max(stint.Instant(e.state.T), e.at); now > from {
			e.fraction += float64(now-from) * e.rate
			whole := math.Floor(e.fraction)
			e.idle, e.fraction = e.idle+int64(whole), e.fraction-whole
		}
		if e.state.T <= int64(now) {
			if e.state.T > int64(e.rested) {
				e.lastBusy = e.mergeBusy(busy{e.rested, e.state.T - int64(e.rested), stint.Instant(e.state.T)})
			}
			e.rested = now
		}
	case window:
		if over := int64(now)/e.per - int64(e.at)/e.per; over > 0 {
			e.roll(over, now)
		}
	}
	e.at = now
}

// roll counts the idle units of windows that have ended; over is how many these are.
func (e *entry) roll(over int64, now stint.Instant) {
	most := e.limit.Capacity()
	used := e.limit.ForStores().Used(&e.state, e.at)
	e.late = e.own.Taken
	if used < over*most { // more units came back than were used
		if taken := used + e.refilled(e.rested, e.at); taken > 0 {
			e.lastBusy = e.mergeBusy(busy{e.rested, taken, e.at})
		}
		e.rested = now
	}
	e.idle += max(0, over*most-used)
	if e.limit.Spec().CarryDebt || over == 1 {
		used -= min(over-1, used/most+1) * most
	} else {
		used = 0
	}
	e.spare = min(most, max(0, most-used))
}

// busy is a stretch of time in which a key was in use.
type busy struct {
	since stint.Instant
	taken int64 // units; of a bucket the microseconds in which these come back
	until stint.Instant
}

// busy returns the last stretch of use, which may still go on.
func (e *entry) busy(now stint.Instant) busy {
	switch {
	case e.kind == bucket && e.state.T > int64(e.rested):
		return e.mergeBusy(busy{e.rested, e.state.T - int64(e.rested), now})
	case e.kind == window:
		if taken := e.limit.ForStores().Used(&e.state, now) + e.refilled(e.rested, now); taken > 0 {
			return e.mergeBusy(busy{e.rested, taken, now})
		}
	}
	return e.lastBusy
}

// setBusy stores a stretch as the last one. A stretch without use changes nothing.
func (e *entry) setBusy(b busy, now stint.Instant) {
	if b.taken == 0 || e.kind == other {
		return
	}
	used := max(0, e.state.T-int64(now))
	if e.kind == window {
		used = e.limit.ForStores().Used(&e.state, now)
	}
	e.rested = now
	e.lastBusy = busy{b.since, max(0, b.taken-used), now}
}

// mergeBusy joins a stretch with the one before it if that lasted until it began. It also joins
// them if the rest between them was short and at least a third of the time before was in use.
func (e *entry) mergeBusy(next busy) busy {
	last := e.lastBusy
	gives := e.refilled(last.since, next.since)
	if e.kind == bucket {
		gives = int64(next.since - last.since)
	}
	if next.since == last.until || next.since.Sub(last.until) <= restAfter && last.taken > 0 && 3*last.taken >= gives {
		return busy{last.since, last.taken + next.taken, next.until}
	}
	return next
}

// refilled returns how many units come back between two times.
func (e *entry) refilled(from, to stint.Instant) int64 {
	switch {
	case from >= to:
	case e.kind == bucket:
		return int64(float64(to-from) * e.rate)
	case e.kind == window:
		return (int64(to)/e.per - int64(from)/e.per) * e.limit.Capacity()
	}
	return 0
}

// extend lets the known time begin earlier. Nothing was taken between from and the time at which
// it began before.
func (e *entry) extend(from stint.Instant) {
	if from >= e.since {
		return
	}
	more := e.refilled(from, e.since)
	e.idle += more
	for i := range e.counters {
		e.counters[i].idle += more
	}
	e.since = from
}

// absorb returns how many of n units, taken since the idle count was since, had come back by now:
// the key was idle, and idle units are used once only.
func (e *entry) absorb(n uint64, since int64) uint64 {
	if e.kind == other {
		return n - min(n, uint64(e.limit.Capacity())) // no debt outlasts a period
	}
	a := min(n, uint64(max(0, e.idle-since)))
	e.idle -= int64(a)
	return a
}

// force debits units that other nodes took.
func (e *entry) force(n uint64, now stint.Instant) {
	if n > 0 {
		e.limit.Force(&e.state, now, n)
	}
}

// refund gives back units that other nodes gave back, except those that had come back by time.
func (e *entry) refund(n uint64, since int64, now stint.Instant) {
	if e.kind == bucket {
		n -= min(n, uint64(max(0, e.idle-since)))
	}
	if n > 0 {
		e.limit.Refund(&e.state, now, n, nil)
	}
}

// startCount starts a count of this node if there is none. It also starts a new one after the key
// was untouched for margin, because other nodes may have removed the old one.
func (e *entry) startCount(next uint64, now stint.Instant) {
	if e.own.Born == 0 || !e.dirty && e.own.Taken > 0 && e.limit.Untouched(&e.state, now.Add(-margin)) {
		e.own = wire.Count{Born: next}
		e.reported, e.late = 0, 0
	}
}

// charge adds the change of use by a take on this node to its count.
func (e *entry) charge(before, after int64) {
	switch {
	case after > before:
		e.own.Taken += uint64(after - before)
	case after < before:
		e.own.Given = min(e.own.Taken, e.own.Given+uint64(before-after))
	}
}

// clear resets the key and starts a count that carries the reset to other nodes.
func (e *entry) clear(next uint64) {
	e.state = stint.State{}
	if e.base != nil {
		*e.base = stint.State{}
	}
	e.own = wire.Count{Born: max(next, e.own.Born+1), Reset: true}
	e.reported, e.late = 0, 0
}

// findCounter returns the count of a node, nil if there is none.
func (e *entry) findCounter(origin uint64) *counter {
	for i := range e.counters {
		if e.counters[i].origin == origin {
			return &e.counters[i]
		}
	}
	return nil
}

// counterOf returns the count of a node, creating it, and sets the time of its last report to
// now.
func (e *entry) counterOf(origin uint64, now stint.Instant) *counter {
	h := e.findCounter(origin)
	if h == nil {
		e.counters = append(slices.Grow(e.counters, 1), counter{origin: origin, idle: e.idle})
		h = &e.counters[len(e.counters)-1]
	}
	h.at = now
	return h
}
