package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stint"
)

// Calls are looked at so many times in the time they have, or more often, and when that is over
// since the first time; they are cut off at most one such part late, and so are those whose
// caller went away.
const looks = 8

// finest is the least time between two looks.
const finest = 100 * time.Microsecond

// maxSpare is how many flights are kept for later calls.
const maxSpare = 1024

// stall is how late a look must be to show that the process itself stood still: the machine
// was paused or busy, and what answered meanwhile could not be read.
const stall = 20 * time.Millisecond

// gate lets calls pass to the store and keeps those that are under way. All that it
// costs a call is a lock, twice: one timer looks after all calls together, and only that
// reads a clock, or a call that fails.
type gate struct {
	timeout time.Duration
	every   time.Duration // between two looks
	late    error         // of a call that was cut off
	changed func(*gate)   // called without the lock
	server  int
	told    bool // whether Options.OnChange was last told that it is away; guarded by Store.telling

	mu      sync.Mutex // guards what follows
	breaker breaker
	flights []*flight   // those under way, then spare ones
	active  int         // how many are under way
	looking bool        // whether the timer runs
	due     time.Time   // when it is to run next
	stalled time.Time   // until when the process last stood still
	timer   *time.Timer // looks at them
	rest    *time.Timer // ends the rest of the breaker
}

func (g *gate) init(o *Options, server int, changed func(*gate)) {
	g.timeout, g.server, g.changed = cmp.Or(o.Timeout, DefaultTimeout), server, changed
	g.every = max(g.timeout/looks, finest)
	if g.every > time.Millisecond {
		// Linux wakes a process that has nothing else to do at whole ones.
		g.every = g.every.Truncate(time.Millisecond)
	}
	g.late = fmt.Errorf("no answer within %v: %w", g.timeout, context.DeadlineExceeded)
	g.breaker.failures = cmp.Or(o.Failures, DefaultFailures)
	g.breaker.most = cmp.Or(o.Pause, DefaultPause)
	g.breaker.least = min(g.timeout, g.breaker.most)
}

// enter returns the context of a call that may ask the store, nil for one that may
// not. Each that may must leave. With several it asks other servers too: it is judged when it
// leaves, as only then is known which of them failed.
func (g *gate) enter(parent context.Context, several bool) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	try, ok := g.breaker.admit()
	if !ok {
		return nil
	}
	if g.active == len(g.flights) {
		g.flights = append(g.flights, newFlight(g.timeout))
	}
	f := g.flights[g.active]
	f.parent, f.at, f.seen, f.try, f.several, f.judged = parent, g.active, time.Time{}, try, several, false
	g.active++
	if !g.looking {
		g.looking = true
		g.due = time.Now().Add(g.every)
		g.again(&g.timer, g.every, g.look)
	}
	return f
}

// again makes a timer, or starts it anew.
func (g *gate) again(timer **time.Timer, d time.Duration, do func()) {
	if *timer == nil {
		*timer = time.AfterFunc(d, do)
		return
	}
	(*timer).Reset(d)
}

// leave ends a call that the store has answered, or failed to.
func (g *gate) leave(f *flight, err error) {
	g.mu.Lock()
	before := g.breaker.open
	switch {
	case f.judged:
		g.breaker.overdue--
	case err == nil:
		g.breaker.good(f)
	case undecodable(err) != nil: // the store is there
		g.breaker.good(f)
		g.breaker.unreadable(err)
	case errors.Is(err, stint.ErrWrongCall) || f.parent.Err() != nil || err == errElsewhere: //nolint:errorlint // as it is
		g.breaker.neither(f)
	default:
		now := time.Now()
		g.noteStallLocked(now)
		// A store that keeps the deadline itself may end a call before we look.
		waited := !f.seen.IsZero() && now.Sub(f.seen) >= g.timeout/2 || errors.Is(err, context.DeadlineExceeded)
		if waited && f.begun().Before(g.stalled) {
			g.breaker.excused(f)
			break
		}
		g.breaker.bad(f, err, waited)
	}
	g.remove(f)
	g.unlock(before)
}

// remove takes a call out of those under way, and keeps its flight for another one
// unless its context has ended.
func (g *gate) remove(f *flight) {
	g.active--
	last := g.flights[g.active]
	g.flights[f.at], last.at = last, f.at
	g.flights[g.active] = f
	if f.ended.Load() == running && g.active < maxSpare {
		f.parent = context.Background()
		f.deadline.Store(0)
		f.latest.Store(0)
		return
	}
	end := len(g.flights) - 1
	g.flights[g.active] = g.flights[end]
	g.flights[end] = nil
	g.flights = g.flights[:end]
}

// noteStallLocked notes whether the process stood still until now: the timer should have run
// long before.
func (g *gate) noteStallLocked(now time.Time) (late time.Duration) {
	if late = now.Sub(g.due); !g.looking || late < stall {
		return 0
	}
	g.stalled = now
	return late
}

// look ends the calls whose time is over or whose caller went away. Time in which the process
// stood still does not count.
func (g *gate) look() {
	g.mu.Lock()
	before, now, next := g.breaker.open, time.Now(), g.every
	late := g.noteStallLocked(now)
	for _, f := range g.flights[:g.active] {
		if late > 0 {
			f.extend(late)
		}
		switch {
		case f.ended.Load() != running:
		case f.parent.Err() != nil:
			f.end(deserted)
		case f.seen.IsZero():
			f.see(now) // it began any time before
		case f.left(now) <= 0:
			f.end(overdue)
			if !f.several {
				f.judged = true
				g.breaker.overdue++
				g.breaker.bad(f, g.late, true)
			}
		default:
			next = min(next, f.left(now))
		}
	}
	if g.looking = g.active > 0; g.looking {
		next = max(next, finest)
		g.due = now.Add(next)
		g.timer.Reset(next)
	}
	g.unlock(before)
}

// unlock unlocks. It sees to the end of a rest that begins, and to that of a change of
// the breaker, which was open before or not, is told.
func (g *gate) unlock(before bool) {
	if g.breaker.rests() {
		g.breaker.resting = true
		g.again(&g.rest, g.breaker.wait(), g.rested)
	}
	changed := g.breaker.open != before
	g.mu.Unlock()
	if changed {
		g.changed(g)
	}
}

// rested lets the next call try whether the store is back.
func (g *gate) rested() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.breaker.rested() {
		g.rest.Reset(g.breaker.wait())
	}
}

func (g *gate) status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &g.breaker
	s := Status{Server: g.server, Away: b.open, Since: b.since, Timeouts: b.timeouts, Errors: b.errors, Spared: b.spared, Undecodable: b.undecodable, Failed: b.failed, UndecodableErr: b.undecodableErr}
	if b.open {
		s.Err = b.err
	}
	return s
}
