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
	plain bool  // denied takes change nothing
	per   int64 // length of a period in microseconds
	state stint.State
	terms *stint.Terms // of the last take on this node; nil: none
	place stint.Key    // of the key
	base  *stint.State // use that the store of another mode counts, which state includes; nil: not read

	settled   stint.State   // by all takes before settledAt
	settledAt stint.Instant // 0: the counts have all takes
	next      stint.State   // settled once the reports of that time have arrived
	nextAt    stint.Instant

	own      counter
	reported uint64 // units of own.Taken in the last report
	late     uint64 // units of own.Taken that were taken in windows that have ended
	dirty    bool   // own changed since the last report
	counters []counter
}

// kind is what is known of the takes of a limit.
type kind uint8

const (
	other  kind = iota // no debt outlasts a period, and no times are kept
	bucket             // units come back at a steady rate
	window             // units come back at multiples of the window's length
)

func newEntry(key stint.Key, limit *stint.Limit, node uint64) *entry {
	e := &entry{key: key, own: counter{node: node}}
	e.setLimit(limit)
	return e
}

// setLimit sets the limit of an entry.
func (e *entry) setLimit(l *stint.Limit) {
	s := l.Spec()
	e.limit, e.kind, e.plain, e.per = l, other, !s.CountDenied && !s.Overdraw, math.MaxInt64
	switch {
	case s.Algorithm == stint.FixedWindow && !s.FromFirst && s.Calendar == stint.NoPeriod:
		e.kind, e.per = window, s.Per.Microseconds()
	case s.Algorithm == stint.TokenBucket && !s.Step && !s.Reserve, s.Algorithm == stint.LeakyBucket:
		e.kind = bucket
		full := float64(l.Capacity()) * float64(s.Per.Microseconds()) / float64(s.Requests)
		e.per = max(int64(full)/periods, DefaultInterval.Microseconds())
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
		e.setLimit(l)
		e.settle(e.state, now, stint.MaxInstant, now)
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

// debit changes a state by units that were taken and given back.
func (e *entry) debit(st *stint.State, taken, given uint64, at stint.Instant) {
	both := min(taken, given)
	e.limit.Force(st, at, taken-both)
	e.limit.Refund(st, at, given-both, nil)
}

// startCount starts a count of this node if there is none. It also starts a new one after the key
// was untouched for margin, because other nodes may have removed the old one.
func (e *entry) startCount(next uint64, now stint.Instant) {
	if e.own.Born == 0 || !e.dirty && e.own.Taken > 0 && e.limit.Untouched(&e.state, now.Add(-margin)) {
		e.own.ends = 0
		e.open(&e.own, now)
		e.own.Count = wire.Count{Born: next}
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
func (e *entry) clear(next uint64, now stint.Instant) {
	e.state = stint.State{}
	if e.base != nil {
		*e.base = stint.State{}
	}
	e.own.Count = wire.Count{Born: max(next, e.own.Born+1), Reset: true}
	e.reported, e.late = 0, 0
	e.settle(e.state, now, stint.MaxInstant, now)
}

// delta returns the count of this node for a report.
func (e *entry) delta() *wire.Delta {
	return &wire.Delta{Limit: e.limit, Key: e.key, Count: e.own.Count, Added: e.own.Taken - e.reported, Late: e.late}
}

// findCounter returns the count of a node, nil if there is none.
func (e *entry) findCounter(origin uint64) *counter {
	if origin == e.own.node {
		return &e.own
	}
	for i := range e.counters {
		if e.counters[i].node == origin {
			return &e.counters[i]
		}
	}
	return nil
}

// counterOf returns the count of a node, creating it.
func (e *entry) counterOf(origin uint64) *counter {
	if c := e.findCounter(origin); c != nil {
		return c
	}
	e.counters = append(slices.Grow(e.counters, 1), counter{node: origin})
	return &e.counters[len(e.counters)-1]
}
