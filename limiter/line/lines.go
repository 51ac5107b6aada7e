package line

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lines are the lines of a process. New makes them. They are safe for concurrent use.
type Lines struct {
	waiting atomic.Int64  // places of all lines
	drain   chan struct{} // closed by Drain

	mu      sync.Mutex
	lines   map[ID]*line
	rules   map[ruleName]*Stats
	tickets uint64
	drained bool
}

// ruleName identifies a rule.
type ruleName struct{ domain, rule string }

// New returns lines in which nobody waits.
func New() *Lines {
	return &Lines{drain: make(chan struct{}), lines: map[ID]*line{}, rules: map[ruleName]*Stats{}}
}

// Settings are the bounds of the lines of a rule.
type Settings struct {
	// MaxWait is how long a request may wait.
	MaxWait time.Duration

	// Places is how many requests may wait for the rule, and PerKey how many in one line.
	Places, PerKey uint32

	// Rate is that of the limit. A request that would wait too long by it is refused at once.
	Rate Rate
}

// Request is a request for a place.
type Request struct {
	ID       ID
	Settings Settings
	Cost     uint32

	// RoomAt is when the limit has room for the request if nobody else takes; the zero time if the
	// limit was not asked because others wait already.
	RoomAt time.Time
}

// Any reports whether anybody waits. It takes no lock.
func (l *Lines) Any() bool { return l.waiting.Load() > 0 }

// Blocks reports whether others are before a request in a line. p is its place, in this line or
// another; nil if it has none. Blocks returns when the first of the line takes.
func (l *Lines) Blocks(id ID, p *Place) (tryAt time.Time, blocks bool) {
	if !l.Any() {
		return tryAt, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.lines[id]
	if found == nil || p != nil && p.beforeLocked(found) {
		return tryAt, false
	}
	return found.tryAt, true
}

// Join gives a request the last place of a line. The error is a [*RefusedError].
func (l *Lines) Join(now time.Time, r *Request) (*Place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &Place{
		lines: l, rule: l.statsLocked(r.ID), cost: r.Cost, entered: now, deadline: now.Add(r.Settings.MaxWait),
		turn: make(chan struct{}, 1),
	}
	if refused := l.enterLocked(now, p, r); refused != nil {
		p.rule.Refused[refused.Outcome]++
		return nil, refused
	}
	p.rule.Entered++
	p.rule.Waiting++
	l.waiting.Add(1)
	return p, nil
}

// enterLocked puts a place into a line, if it may wait there.
func (l *Lines) enterLocked(now time.Time, p *Place, r *Request) *RefusedError {
	to := l.lines[r.ID]
	if to == nil {
		to = &line{id: r.ID, tryAt: later(now, r.RoomAt)}
	}
	to.rate = r.Settings.Rate
	room := later(r.RoomAt, to.room(r.Cost))
	wait := max(room.Sub(now), 1)
	switch {
	case l.drained:
		return &RefusedError{Drained, retryDrained}
	case to.places.Len() >= int(r.Settings.PerKey), p.rule.Waiting >= int64(r.Settings.Places):
		return &RefusedError{Full, wait}
	case room.After(p.deadline):
		return &RefusedError{Late, wait}
	}
	if p.ticket == 0 {
		l.tickets++
		p.ticket = l.tickets
	}
	l.lines[r.ID] = to
	if to.add(p); to.first() == p {
		to.tryAt = later(now, r.RoomAt)
	}
	return nil
}

// leaveLocked removes a place from its line, and the line if it is empty. The next one takes when it
// is time.
func (l *Lines) leaveLocked(p *Place) {
	from := p.line
	from.remove(p)
	if from.first() == nil {
		delete(l.lines, from.id)
		return
	}
	from.wake()
}

// Drain refuses all requests that wait, and all that come later, for a server that shuts down.
func (l *Lines) Drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.drained {
		l.drained = true
		close(l.drain)
	}
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
