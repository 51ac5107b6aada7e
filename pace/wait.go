package pace

import (
	"container/list"
	"context"
	"errors"
	"time"

	"stint"
)

// waiter is a caller in Wait.
type waiter struct {
	cost     uint32
	deadline time.Time     // zero: none
	turn     chan struct{} // closed when it is its turn, or when it was refused
	refused  error
	place    *list.Element // nil once it is out of the line
}

// Wait takes cost units as soon as the limit allows them, and returns nil then. It
// returns an error, and has taken nothing, when ctx ends before, when the store could
// not decide, or, wrapped in a [RefusedError] and without waiting:
//
//   - ErrNever where the cost is more than the limit can ever hold,
//   - ErrTooLate where ctx has a deadline that cannot be met. For who stands behind
//     others that is known at once for the buckets, which tell the wait for all that
//     is ahead; for windows and logs it may turn out later, but never after the
//     deadline.
//
// Those that wait form a line, and only its front asks the store. Whoever leaves the
// line, because its context ended or it was refused, leaves its place to those behind:
// it has been charged nothing. Where the limit itself delays (leaky_bucket), only the
// front holds a place in its queue; one that leaves gives it back, which counts unless
// another process has queued behind it.
//
// A cost of 0 takes nothing and waits for nothing.
func (p *Pacer) Wait(ctx context.Context, cost uint32) error {
	if err := ctx.Err(); err != nil || cost == 0 {
		return err
	}
	if int64(cost) > p.limit.Capacity() {
		return &RefusedError{Reason: ErrNever, Cost: cost, Wait: stint.Never}
	}
	w, err := p.enter(ctx, cost)
	if err != nil {
		return err
	}
	defer p.leave(w)
	select {
	case <-w.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.refused != nil {
		return w.refused
	}
	return p.serve(ctx, cost)
}

// enter puts a waiter at the end of the line, unless it is known that its turn comes
// too late.
func (p *Pacer) enter(ctx context.Context, cost uint32) (*waiter, error) {
	w := &waiter{cost: cost, turn: make(chan struct{})}
	w.deadline, _ = ctx.Deadline()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line.Len() == 0 {
		close(w.turn)
	} else if err := p.tooLateLocked(w, p.units); err != nil {
		return nil, err
	}
	w.place = p.line.PushBack(w)
	p.unknown = p.unknown || p.last.at.IsZero() && !w.deadline.IsZero()
	p.units += int64(cost)
	return w, nil
}

// tooLateLocked returns the refusal of a waiter that stands behind ahead units and
// whose deadline comes too early, as far as a pause and the last answer to the front
// tell.
func (p *Pacer) tooLateLocked(w *waiter, ahead int64) error {
	due := p.gate.until
	if !p.last.at.IsZero() {
		least := measure(p.limit).least(&p.last.Decision, ahead, int64(w.cost))
		if told := p.last.at.Add(least); told.After(due) {
			due = told
		}
	}
	if w.deadline.IsZero() || due.Before(w.deadline) {
		return nil
	}
	return &RefusedError{Reason: ErrTooLate, Cost: w.cost, Wait: time.Until(due)}
}

// leave takes a waiter out of the line; if it was its turn, it is that of the next.
func (p *Pacer) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place == nil {
		return
	}
	front := w.place == p.line.Front()
	p.removeLocked(w)
	if p.line.Len() == 0 {
		p.last = answer{}
	} else if front {
		close(p.line.Front().Value.(*waiter).turn)
	}
}

// removeLocked takes a waiter out of the line.
func (p *Pacer) removeLocked(w *waiter) {
	p.line.Remove(w.place)
	p.units -= int64(w.cost)
	w.place = nil
}

// learn keeps the answer to the front, and turns away those behind who came before
// there was one and whose deadline is now known to be too early.
func (p *Pacer) learn(d *stint.Decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = answer{*d, time.Now()}
	if d.Allowed { // its units are in the answer
		front := p.line.Front().Value.(*waiter)
		p.units -= int64(front.cost)
		front.cost = 0
	}
	if !p.unknown {
		return
	}
	p.unknown = false
	ahead := int64(0)
	for e := p.line.Front(); e != nil; {
		w, place := e.Value.(*waiter), e
		e = e.Next()
		if place != p.line.Front() {
			if err := p.tooLateLocked(w, ahead); err != nil {
				p.removeLocked(w)
				w.refused = err
				close(w.turn)
				continue
			}
		}
		ahead += int64(w.cost)
	}
}

// serve waits at the front of the line.
func (p *Pacer) serve(ctx context.Context, cost uint32) error {
	for {
		if err := p.passGate(ctx, cost); err != nil {
			return err
		}
		changed := p.whenChanged()
		d, err := p.decide(ctx, stint.Take{Limit: p.quiet, Cost: cost})
		switch {
		case err != nil:
			return err
		case d.Allowed:
			p.spent(&d, cost)
			p.learn(&d)
			return p.hold(ctx, cost, &d)
		case d.RetryAfter == stint.Never:
			return &RefusedError{Reason: ErrNever, Cost: cost, Wait: stint.Never}
		}
		p.learn(&d)
		if err := sleep(ctx, cost, d.RetryAfter, changed); err != nil {
			return err
		}
	}
}

// hold keeps what a leaky bucket let pass for the delay that it carries; who cannot
// wait so long gives it back.
func (p *Pacer) hold(ctx context.Context, cost uint32, d *stint.Decision) error {
	if d.Delay == 0 {
		return nil
	}
	err := sleep(ctx, cost, d.Delay, nil)
	if err != nil {
		_, undone := p.GiveBack(context.WithoutCancel(ctx), cost, d)
		return errors.Join(err, undone)
	}
	return nil
}

// passGate waits until the gate is open to cost units.
func (p *Pacer) passGate(ctx context.Context, cost uint32) error {
	for {
		p.mu.Lock()
		now := time.Now()
		wait, paused, moved := p.gate.closed(now, cost), p.gate.until.Sub(now), p.gate.moved
		p.mu.Unlock()
		switch {
		case wait <= 0:
			return nil
		case wait <= paused:
			// A pause is never shortened, so a deadline before its end cannot be met.
			if err := sleep(ctx, cost, wait, nil); err != nil {
				return err
			}
		default:
			if err := awake(ctx, wait, moved); err != nil {
				return err
			}
		}
	}
}

func (p *Pacer) whenChanged() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// sleep waits for d or until changed, unless ctx ends before; it refuses at once where
// its deadline is not after d.
func sleep(ctx context.Context, cost uint32, d time.Duration, changed <-chan struct{}) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return &RefusedError{Reason: ErrTooLate, Cost: cost, Wait: d}
	}
	return awake(ctx, d, changed)
}

// awake waits for d, until changed, or until ctx ends, which is an error.
func awake(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
