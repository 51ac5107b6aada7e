package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stint"
	"stint/internal/transaction"
)

// checksPerTimeout is how often the timer checks a call within its timeout, at least. It also
// checks when the timeout is over since the first check. Calls end at most one interval late, also
// those whose caller's context ended.
const checksPerTimeout = 8

// minCheck is the shortest time between two checks.
const minCheck = 100 * time.Microsecond

// maxSpare is how many flights are kept for later calls.
const maxSpare = 1024

// suspendedAfter is how late a check must run to show that the process was suspended: the machine
// was paused or busy, and the process could not read answers meanwhile.
const suspendedAfter = 20 * time.Millisecond

// gate admits calls to the store and tracks those in flight. It costs a call only two locks: one
// timer checks all calls together, and only that timer, or a call that fails, reads a clock.
type gate struct {
	timeout time.Duration
	every   time.Duration // time between two checks
	late    error         // error of a call that timed out
	changed func(*gate)   // called without the lock when the breaker changed
	server  int
	told    bool // Away in the last call of Options.OnChange; guarded by Store.telling

	mu      sync.Mutex // guards the fields below
	breaker breaker
	flights []*flight   // those in flight, then spare ones
	active  int         // number in flight
	looking bool        // whether the timer runs
	due     time.Time   // next time of the timer
	stalled time.Time   // end of the last time in which the process was suspended
	timer   *time.Timer // runs look
	rest    *time.Timer // runs rested
}

func (g *gate) init(o *Options, server int, changed func(*gate)) {
	g.timeout, g.server, g.changed = cmp.Or(o.Timeout, DefaultTimeout), server, changed
	g.every = max(g.timeout/checksPerTimeout, minCheck)
	if g.every > time.Millisecond {
		// Linux wakes an idle process at whole milliseconds.
		g.every = g.every.Truncate(time.Millisecond)
	}
	g.late = fmt.Errorf("no answer within %v: %w", g.timeout, context.DeadlineExceeded)
	g.breaker.failures = cmp.Or(o.Failures, DefaultFailures)
	g.breaker.most = cmp.Or(o.Pause, DefaultPause)
	g.breaker.least = min(g.timeout, g.breaker.most)
}

// enter returns the context of a call that may be sent to the store, nil for one that may not. Each
// such call must leave. several means that it uses other servers too: it is judged when it leaves,
// as only then the failed servers are known.
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

// again starts a timer, and makes it if it is nil.
func (g *gate) again(timer **time.Timer, d time.Duration, do func()) {
	if *timer == nil {
		*timer = time.AfterFunc(d, do)
		return
	}
	(*timer).Reset(d)
}

// leave ends a call with the store's error, nil if it was answered.
func (g *gate) leave(f *flight, err error) {
	g.mu.Lock()
	before := g.breaker.open
	switch {
	case f.judged:
		g.breaker.overdue--
	case err == nil:
		g.breaker.succeeded(f)
	case undecodable(err) != nil: // the store works
		g.breaker.succeeded(f)
		if !errors.Is(err, transaction.ErrLost) {
			g.breaker.countUndecodable(err)
		}
	case errors.Is(err, stint.ErrWrongCall) || f.parent.Err() != nil || err == errElsewhere: //nolint:errorlint // compared unwrapped
		g.breaker.inconclusive(f)
	default:
		now := time.Now()
		g.noteStallLocked(now)
		// A store that keeps the deadline itself may end a call before look does.
		waited := !f.seen.IsZero() && now.Sub(f.seen) >= g.timeout/2 || errors.Is(err, context.DeadlineExceeded)
		if waited && f.begun().Before(g.stalled) {
			g.breaker.suspendedTimeout(f)
			break
		}
		g.breaker.failedCall(f, err, waited)
	}
	g.remove(f)
	g.unlock(before)
}

// remove removes a call from those in flight. It keeps its flight for another call, unless its
// context has ended.
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

// noteStallLocked returns by how much the timer is late, if that shows that the process was
// suspended, and stores the time.
func (g *gate) noteStallLocked(now time.Time) (late time.Duration) {
	if late = now.Sub(g.due); !g.looking || late < suspendedAfter {
		return 0
	}
	g.stalled = now
	return late
}

// look ends the calls whose timeout is over or whose caller's context ended. Time in which the
// process was suspended does not count.
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
			f.see(now) // the call was sent before now
		case f.left(now) <= 0:
			f.end(overdue)
			if !f.several {
				f.judged = true
				g.breaker.overdue++
				g.breaker.failedCall(f, g.late, true)
			}
		default:
			next = min(next, f.left(now))
		}
	}
	if g.looking = g.active > 0; g.looking {
		next = max(next, minCheck)
		g.due = now.Add(next)
		g.timer.Reset(next)
	}
	g.unlock(before)
}

// unlock unlocks the gate. It starts a pause if one must begin, and reports a change of the
// breaker, which was open before or not.
func (g *gate) unlock(before bool) {
	if g.breaker.mustPause() {
		g.breaker.pausing = true
		g.again(&g.rest, g.breaker.wait(), g.rested)
	}
	changed := g.breaker.open != before
	g.mu.Unlock()
	if changed {
		g.changed(g)
	}
}

// rested lets the next call try the store.
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
