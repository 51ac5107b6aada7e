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
	terms     *stint.Terms // of whom it was made, nil for none
	algorithm stint.Algorithm
	server    *server
	pool      *pool
	slot      int    // in the pool; guarded by its lock
	next      *entry // in the queue of the node

	queued      atomic.Bool  // it is in the queue
	undecodable atomic.Int64 // since when the store cannot read its state, by the node's clock; 0: it can

	mu      sync.Mutex    // guards what follows
	reading chan struct{} // closed when the store has said what it is; nil: it has
	dead    bool          // it is in the table no more
	used    bool          // since the hand of the pool came by
	sent    bool          // the store is being told
	removed bool          // its rule is eventual no more
	limit   *stint.Limit
	per     int64         // of windows, microseconds; 0 for buckets
	state   stint.State   // by the store's clock, with all that was taken here
	unsent  int64         // units that the store has not been told of
	since   stint.Instant // when the first of them was taken, by the store's clock
	latest  system.Latest // time at which anything was decided, by the node's clock
	late    int64         // those of a window before that of since
	lateAt  stint.Instant
	slack   int64 // by how much T is later than what the store said, microseconds
}

// entryBytes is about what an entry takes beside its texts, with its places in the table and
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

// setLimitLocked takes a limit for that of the entry.
func (e *entry) setLimitLocked(limit *stint.Limit) {
	e.limit = limit
	if e.algorithm == stint.FixedWindow {
		e.per = limit.Spec().Per.Microseconds()
	}
}

// changeLimitLocked brings the state to the numbers of a take.
func (e *entry) changeLimitLocked(limit *stint.Limit, at stint.Instant) {
	if e.limit != limit {
		limit.ForStores().Migrate(&e.state, e.limit, at)
		e.setLimitLocked(limit)
	}
}

// timeLocked returns the time at the store for a caller who came at now, no earlier than for those
// before.
func (e *entry) timeLocked(now stint.Instant) stint.Instant { return e.server.now(e.latest.Of(now)) }

// decideLocked does what a take asks for, and notes what the store has to be told.
func (e *entry) decideLocked(t *stint.Take, cost uint64, now stint.Instant, d *stint.Decision) {
	at := e.timeLocked(now)
	e.changeLimitLocked(t.Limit, at)
	e.used = true
	switch t.Op {
	case stint.Ask:
		if *d = e.limit.Take(&e.state, at, cost); d.Allowed {
			e.countLocked(int64(cost), at)
		}
	case stint.Force:
		*d = e.limit.Force(&e.state, at, cost)
		e.countLocked(int64(cost), at)
	case stint.Refund:
		before := e.state
		*d = e.limit.Refund(&e.state, at, cost, t.Undo)
		e.countLocked(-e.limit.ForStores().Freed(&before, &e.state, at), at)
	}
}

// countLocked notes units that were taken. Those of an earlier window are told apart, so that
// they are charged to that.
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

// applyAnswerLocked takes what the store said of the key at a time that it was told, to which it
// adds what it was not told of.
//
// The store charges what it is told as of when the first of it was taken, so that it fills a
// bucket up meanwhile as that would have been. That is too early for the others. The state
// here is exact for what was taken here, so the later of both holds, unless they are further
// apart than that explains: then somebody gave something back.
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

// addLocked charges what the store was not told of.
func (e *entry) addLocked(units int64, at stint.Instant) {
	switch {
	case units > 0:
		e.limit.Force(&e.state, at, uint64(units))
	case units < 0:
		e.limit.Refund(&e.state, at, uint64(-units), nil)
	}
}

// dirtyLocked says whether the store has not acknowledged all.
func (e *entry) dirtyLocked() bool {
	return e.unsent != 0 || e.late != 0 || e.sent || e.reading != nil
}

// exhaustedLocked says whether nothing can be taken at present.
func (e *entry) exhaustedLocked(now stint.Instant) bool {
	d := e.limit.Test(&e.state, e.server.now(now), 1)
	return !d.Allowed
}
