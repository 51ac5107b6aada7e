package eventual

import (
	"strings"
	"sync"
	"sync/atomic"

	"stint"
	"stint/internal/system"
)

// entry is what a node knows of a key.
type entry struct {
	fp        uint64
	key       stint.Key
	place     stint.Key
	terms     *stint.Terms // of the take that it was made for; nil: none
	algorithm stint.Algorithm
	server    *server
	pool      *pool
	slot      int    // index in the pool; guarded by the pool's lock
	next      *entry // in the queue of the node

	queued      atomic.Bool  // it is in the queue of the node
	undecodable atomic.Int64 // since when the store cannot read the key's state, by the node's clock; 0: it can

	mu      sync.Mutex    // guards the fields below
	reading chan struct{} // closed when the store's answer is there; nil: the entry has a state
	dead    bool          // the entry is no longer in the table
	used    bool          // since the pool's hand last passed it
	sent    bool          // a report of it is in flight
	removed bool          // its rule is no longer eventual
	limit   *stint.Limit
	per     int64         // length of a window in microseconds; 0 for buckets
	state   stint.State   // by the store's clock, including all takes of this node
	unsent  int64         // units not sent to the store yet
	since   stint.Instant // time of the first of them, by the store's clock
	latest  system.Latest // latest time of a decision, by the node's clock
	late    int64         // unsent units of a window before the window of since
	lateAt  stint.Instant
	slack   int64 // state.T minus that of the store's last answer, microseconds
}

// entryBytes is about the memory of an entry without its texts, and of its slots in the table and
// the pool.
const entryBytes = 256

func (e *entry) size() int64 { return int64(entryBytes + len(e.key) + len(e.place)) }

func newEntry(fp uint64, t *stint.Take, h *server, p *pool) *entry {
	e := &entry{
		fp: fp, key: stint.Key(strings.Clone(string(t.Key))), place: stint.Key(strings.Clone(string(t.Handling.Place))),
		terms: t.Terms(), algorithm: t.Limit.Algorithm(), server: h, pool: p, reading: make(chan struct{}),
	}
	e.setLimitLocked(t.Limit)
	return e
}

// setLimitLocked sets the limit of the entry.
func (e *entry) setLimitLocked(limit *stint.Limit) {
	e.limit = limit
	if e.algorithm == stint.FixedWindow {
		e.per = limit.Spec().Per.Microseconds()
	}
}

// changeLimitLocked moves the state to the limit of a take.
func (e *entry) changeLimitLocked(limit *stint.Limit, at stint.Instant) {
	if e.limit != limit {
		limit.ForStores().Migrate(&e.state, e.limit, at)
		e.setLimitLocked(limit)
	}
}

// timeLocked returns the time by the store's clock of a caller that came at now. It never runs
// backwards.
func (e *entry) timeLocked(now stint.Instant) stint.Instant { return e.server.now(e.latest.Of(now)) }

// decideLocked decides a take and counts what it changed.
func (e *entry) decideLocked(t *stint.Take, now stint.Instant, d *stint.Decision) {
	at, cost := e.timeLocked(now), uint64(t.Cost)
	e.changeLimitLocked(t.Limit, at)
	e.used = true
	switch t.Op {
	case stint.Ask:
		if *d = e.limit.Take(&e.state, at, cost); d.Allowed {
			e.countLocked(int64(cost), at)
		}
	case stint.AskAtMost:
		*d = e.limit.TakeAtMost(&e.state, at, cost)
		e.countLocked(int64(d.Charged), at)
	case stint.Force:
		*d = e.limit.Force(&e.state, at, cost)
		e.countLocked(int64(cost), at)
	case stint.Refund:
		before := e.state
		*d = e.limit.Refund(&e.state, at, cost, t.Undo)
		e.countLocked(-e.limit.ForStores().Freed(&before, &e.state, at), at)
	}
}

// countLocked counts units to send to the store. Units of an earlier window are kept apart, so
// that the store charges them to that window.
func (e *entry) countLocked(units int64, at stint.Instant) {
	switch {
	case units == 0:
		return
	case e.unsent == 0:
		e.since = at
	case e.per > 0 && int64(at)/e.per != int64(e.since)/e.per:
		e.late, e.lateAt = e.late+e.unsent, e.since
		e.unsent, e.since = 0, at
	}
	e.unsent += units
}

// applyAnswerLocked sets the state to the store's decision, and adds the units that the store
// does not have yet.
//
// The store charges all units of a report at the time of the first, so that a bucket refills from
// then on. That is too early for the later units. The state here is exact for the takes of this
// node, so the later of both times counts. If they differ by more than that explains, somebody
// gave units back, and the store's time counts.
func (e *entry) applyAnswerLocked(limit *stint.Limit, d *stint.Decision, now stint.Instant) {
	own := e.state.T
	at := e.timeLocked(now)
	e.state = limit.ForStores().StateFromDecision(d)
	if limit != e.limit {
		e.limit.ForStores().Migrate(&e.state, limit, at)
	}
	e.addLocked(e.late, e.lateAt)
	e.addLocked(e.unsent, e.since)
	slack := own - max(e.state.T, int64(d.At))
	if e.per == 0 && own > e.state.T && slack <= max(e.slack, int64(at-d.At)) {
		e.state.T = own
	} else {
		slack = 0
	}
	e.slack = max(0, slack)
}

// addLocked charges units that the store does not have yet.
func (e *entry) addLocked(units int64, at stint.Instant) {
	switch {
	case units > 0:
		e.limit.Force(&e.state, at, uint64(units))
	case units < 0:
		e.limit.Refund(&e.state, at, uint64(-units), nil)
	}
}

// dirtyLocked reports whether the store has not acknowledged all counts of the entry.
func (e *entry) dirtyLocked() bool {
	return e.unsent != 0 || e.late != 0 || e.sent || e.reading != nil
}

// exhaustedLocked reports whether no unit can be taken now.
func (e *entry) exhaustedLocked(now stint.Instant) bool {
	d := e.limit.Test(&e.state, e.server.now(now), 1)
	return !d.Allowed
}
