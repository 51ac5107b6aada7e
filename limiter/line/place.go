package line

import (
	"container/list"
	"context"
	"time"

	"stint/internal/system"
)

// Place is the place of a request in a line. Only one goroutine may use it.
type Place struct {
	lines    *Lines
	line     *line // nil after it left
	element  *list.Element
	rule     *Stats
	cost     uint32
	ticket   uint64  // order in the line
	visited  []visit // lines where it was before
	entered  time.Time
	deadline time.Time
	turn     chan struct{} // has an element if the place may be the first of its line now
	timer    *time.Timer
}

// visit is the ticket of a place in a line.
type visit struct {
	id     ID
	ticket uint64
}

// Outcome is how a request left its line, or why it got no place.
type Outcome uint8

// The outcomes.
const (
	Passed    Outcome = iota // its limits had room
	Moved                    // it waits for another limit now
	Denied                   // a limit denied it whose excess does not wait
	Full                     // there was no place
	Late                     // it would have waited too long
	Gone                     // the client disconnected
	Drained                  // the server shuts down
	Undecided                // the store could not decide
	outcomes
)

var outcomeNames = [...]string{"passed", "moved", "denied", "full", "late", "gone", "drained", "undecided"}

// String returns the name of the outcome in metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// RefusedError is the error of a request that gets no place, or cannot keep it.
type RefusedError struct {
	Outcome Outcome // Full, Late or Drained

	// RetryAfter is how long those who wait now need, more than 0.
	RetryAfter time.Duration
}

// Error returns why the request is refused.
func (e *RefusedError) Error() string { return "no place in the line: " + e.Outcome.String() }

// retryDrained is the Retry-After while the server shuts down.
const retryDrained = time.Second

// late is how late a timer may be on an idle machine.
const late = 2 * time.Millisecond

// look is how often Wait calls gone.
const look = 50 * time.Millisecond

// Wait waits until the request is the first of its line and the limit has room, as far as is known.
// The error is that of ctx, or a [*RefusedError]; the place is kept until Leave. If gone is not nil, Wait
// calls it now and then, and returns context.Canceled once it reports that the client disconnected.
func (p *Place) Wait(ctx context.Context, gone func() bool) error {
	for napped := false; ; {
		first, sharp, tryAt := p.position()
		now, until := time.Now(), p.deadline
		switch {
		case first && !tryAt.After(now) && !now.After(p.deadline):
			return nil
		case first && tryAt.After(p.deadline), !now.Before(p.deadline):
			return &RefusedError{Late, max(tryAt.Sub(now), 1)}
		case first:
			until = tryAt
		}
		rest := until.Sub(now)
		if first && sharp && !napped {
			if rest <= late {
				system.Nap(rest)
				napped = true
				continue
			}
			rest -= late
		}
		if gone != nil {
			if gone() {
				return context.Canceled
			}
			rest = min(rest, look)
		}
		if p.timer == nil {
			p.timer = time.NewTimer(rest)
		} else {
			p.timer.Reset(rest)
		}
		select {
		case <-p.turn:
		case <-p.timer.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.lines.drain:
			return &RefusedError{Drained, retryDrained}
		}
	}
}

// position reports whether the place is the first of its line, and when and how exactly the first one
// takes.
func (p *Place) position() (first, sharp bool, tryAt time.Time) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	return p.line.first() == p, p.line.rate.Sharp, p.line.tryAt
}

// ticketOf returns the ticket of the place in a line; 0 if it was never there.
func (p *Place) ticketOf(id ID) uint64 {
	for _, v := range p.visited {
		if v.id == id {
			return v.ticket
		}
	}
	return 0
}

// beforeLocked reports whether nobody is before the place in a line, or would be if it came back.
func (p *Place) beforeLocked(l *line) bool {
	ticket := p.ticket
	if p.line != l {
		ticket = p.ticketOf(l.id)
	}
	return ticket != 0 && ticket <= l.first().ticket
}

// Move tells that a limit denied the request, or others wait for it. Where that limit has another
// line, the place moves there. On an error, a [*RefusedError], the request left all lines.
func (p *Place) Move(now time.Time, r *Request) error {
	l := p.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.line.id == r.ID {
		if p.line.first() == p {
			p.line.rate = r.Settings.Rate
			p.line.tryAt = later(now, r.RoomAt)
		}
		if r.RoomAt.After(p.deadline) {
			return p.endLocked(now, &RefusedError{Late, r.RoomAt.Sub(now)})
		}
		return nil
	}
	ticket := p.ticketOf(r.ID)
	p.visited = append(p.visited, visit{p.line.id, p.ticket})
	p.line.tryAt = now // its limit had room for this one
	l.leaveLocked(p)
	p.ticket, p.cost = ticket, r.Cost
	if end := now.Add(r.Settings.MaxWait); end.Before(p.deadline) {
		p.deadline = end
	}
	p.rule.Waiting--
	p.rule.Waited += now.Sub(p.entered)
	p.rule.Left[Moved]++
	p.rule, p.entered = l.statsLocked(r.ID), now
	if refused := l.enterLocked(now, p, r); refused != nil {
		p.rule.Refused[refused.Outcome]++
		l.waiting.Add(-1)
		return refused
	}
	p.rule.Entered++
	p.rule.Waiting++
	return nil
}

// endLocked ends the wait of a request that cannot keep its place.
func (p *Place) endLocked(now time.Time, refused *RefusedError) error {
	p.lines.leaveLocked(p)
	p.countLocked(now, refused.Outcome)
	return refused
}

// countLocked counts that the request left.
func (p *Place) countLocked(now time.Time, o Outcome) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.rule.Waiting--
	p.rule.Left[o]++
	p.rule.Waited += now.Sub(p.entered)
	p.lines.waiting.Add(-1)
}

// Leave gives the place up. Of a request that passed, remaining is what its limit has left. If the
// request left before, Leave does nothing.
func (p *Place) Leave(now time.Time, o Outcome, remaining int64) {
	l := p.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	from := p.line
	if from == nil {
		return
	}
	first := from.first() == p
	l.leaveLocked(p)
	if first && o == Passed {
		from.passed(now, remaining)
	}
	p.countLocked(now, o)
}
