package gossip

import (
	"math"
	"slices"
	"strings"

	"stint"
	"stint/fleet/gossip/wire"
)

// entry is what a node knows of a key: its state as all that was taken here, and all that
// was heard of, leaves it; and how much of that is whose.
type entry struct {
	key   stint.Key
	limit *stint.Limit
	kind  kind
	plain bool    // no denied take changes anything
	rate  float64 // units that come back in a microsecond, of a bucket
	per   int64   // length of a window in microseconds
	state stint.State
	terms *stint.Terms // of the last take here; nil: there was none
	place stint.Key    // of its key
	base  *stint.State // as the store of another mode has it, which is in state too; nil: not asked

	since    stint.Instant // since when all is known that was taken, of the counts that are here
	rested   stint.Instant // when it was as untouched last
	lastBusy busy          // the time before that
	baseAt   stint.Instant // when base was read

	at       stint.Instant // up to which the next two are right
	idle     int64         // units that could have been taken in all that time, and were not
	fraction float64       // of the next such unit
	spare    int64         // of these, those of the window before the present one

	own      wire.Count
	reported uint64 // of own.taken
	late     uint64 // of own.taken, what was taken in windows that are over
	dirty    bool   // own changed since it was told
	counters []counter
}

// counter is the count of another node.
type counter struct {
	origin uint64
	idle   int64         // entry.idle when it was last told
	at     stint.Instant // when that was
	wire.Count
}

// kind is how it is known what could have been taken of a limit and was not.
type kind uint8

const (
	other  kind = iota // it is not
	bucket             // it fills up steadily
	window             // they begin at multiples of their length
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

// changeLimit makes the state one of a limit whose numbers may have changed.
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

// setTerms notes which rule a take is of.
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

// advance brings idleness up to now.
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

// roll notes what was not used in so many windows that are over.
func (e *entry) roll(over int64, now stint.Instant) {
	most := e.limit.Capacity()
	used := e.limit.ForStores().Used(&e.state, e.at)
	e.late = e.own.Taken
	if used < over*most { // more came back than was used
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

// busy is a stretch of time in which a key was used.
type busy struct {
	since stint.Instant
	taken int64 // in it: units, or of a bucket the microseconds in which they come back
	until stint.Instant
}

// busy returns the last such stretch, which may not be over.
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

// setBusy makes a stretch the last one; none leaves it as it is.
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

// mergeBusy returns a stretch together with the one before it, if that went on until then, or was
// over but shortly before and as much was taken in it as makes it worth while.
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

// refilled returns how many units come back from one time to another.
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

// extend makes what is known go back to a time, from which until now nothing was.
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

// absorb returns how many of n units that were taken some time ago cost nothing any more:
// the key was idle since, and what comes back then was not used twice.
func (e *entry) absorb(n uint64, since int64) uint64 {
	if e.kind == other {
		return n - min(n, uint64(e.limit.Capacity())) // nothing is owed for longer than a period
	}
	a := min(n, uint64(max(0, e.idle-since)))
	e.idle -= int64(a)
	return a
}

// force debits units that others took.
func (e *entry) force(n uint64, now stint.Instant) {
	if n > 0 {
		e.limit.Force(&e.state, now, n)
	}
}

// refund gives back units that others gave back, but for those that came back by time.
func (e *entry) refund(n uint64, since int64, now stint.Instant) {
	if e.kind == bucket {
		n -= min(n, uint64(max(0, e.idle-since)))
	}
	if n > 0 {
		e.limit.Refund(&e.state, now, n, nil)
	}
}

// startCount sees to it that there is a count of this node's own: another one than before the
// key was as untouched for long, as others may have forgotten that.
func (e *entry) startCount(next uint64, now stint.Instant) {
	if e.own.Born == 0 || !e.dirty && e.own.Taken > 0 && e.limit.Untouched(&e.state, now.Add(-margin)) {
		e.own = wire.Count{Born: next}
		e.reported, e.late = 0, 0
	}
}

// charge counts what a take here changed.
func (e *entry) charge(before, after int64) {
	switch {
	case after > before:
		e.own.Taken += uint64(after - before)
	case after < before:
		e.own.Given = min(e.own.Taken, e.own.Given+uint64(before-after))
	}
}

// clear begins a count that says that the key was reset.
func (e *entry) clear(next uint64) {
	e.state = stint.State{}
	if e.base != nil {
		*e.base = stint.State{}
	}
	e.own = wire.Count{Born: max(next, e.own.Born+1), Reset: true}
	e.reported, e.late = 0, 0
}

// findCounter returns the count of a node, nil if nothing is known of it.
func (e *entry) findCounter(origin uint64) *counter {
	for i := range e.counters {
		if e.counters[i].origin == origin {
			return &e.counters[i]
		}
	}
	return nil
}

// counterOf returns the count of a node to write to, of which is heard now.
func (e *entry) counterOf(origin uint64, now stint.Instant) *counter {
	h := e.findCounter(origin)
	if h == nil {
		e.counters = append(slices.Grow(e.counters, 1), counter{origin: origin, idle: e.idle})
		h = &e.counters[len(e.counters)-1]
	}
	h.at = now
	return h
}
