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
	deadline time.Time     // zero for none
	turn     chan struct{} // closed when it is the waiter's turn, or when it was refused
	refused  error
	place    *list.Element // nil after it left the line
}

// Wait takes cost units as soon as the limit allows, and then returns nil. On error it has taken
// nothing. It returns an error if ctx ends first, if the store fails, or, wrapped in a
// [RefusedError] and without waiting:
//
//   - ErrNever if the cost exceeds the capacity of the limit,
//   - ErrTooLate if the deadline of ctx cannot be met. Behind other waiting callers,
//     this is known immediately for buckets, which have the wait for all units ahead;
//     for windows and logs it may become known later, but never after the deadline.
//
// Waiting callers form a line, and only the front of it asks the store. A caller that leaves the
// line, because its context ended or it was refused, was charged nothing, and those behind it move
// up. If the limit itself delays (leaky_bucket), only the front has a place in its queue; if it
// leaves, it gives the place back, unless another process has queued behind it.
//
// A cost of 0 takes nothing and does not wait.
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

// enter appends a waiter to the line, or returns a refusal if its turn is known to be too late.
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

// tooLateLocked returns a refusal if a waiter behind ahead units cannot pass before its deadline,
// by the pause and the last answer for the front.
func (p *Pacer) tooLateLocked(w *waiter, ahead int64) error {
	due := p.gate.until
	if !p.last.at.IsZero() {
		least := measure(p.limit).least(&p.last.Decision, ahead, int64(w.cost))
		if earliest := p.last.at.Add(least); earliest.After(due) {
			due = earliest
		}
	}
	if w.deadline.IsZero() || due.Before(w.deadline) {
		return nil
	}
	return &RefusedError{Reason: ErrTooLate, Cost: w.cost, Wait: time.Until(due)}
}

// leave removes a waiter from the line; if it was the front, the next one gets its turn.
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

// removeLocked removes a waiter from the line.
func (p *Pacer) removeLocked(w *waiter) {
	p.line.Remove(w.place)
	p.units -= int64(w.cost)
	w.place = nil
}

// learn stores the answer for the front. It refuses the waiters that entered before there was an
// answer and whose deadline is now known to be too early.
func (p *Pacer) learn(d *stint.Decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = answer{*d, time.Now()}
	if d.Allowed { // the answer includes its units
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

// serve waits at the front of the line until the limit allows the units.
func (p *Pacer) serve(ctx context.Context, cost uint32) error {
	for {
		if err := p.passGate(ctx, cost); err != nil {
			return err
		}
		changed := p.whenChanged()
		d, err := p.decide(ctx, stint.Take{Limit: p.uncharged, Cost: cost})
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

// hold waits for the delay of a leaky bucket; if ctx ends too early, the units are given back.
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

// passGate waits until the gate is open for cost units.
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

// sleep waits for d, or until changed is closed. It refuses immediately if the deadline of ctx is
// not after d.
func sleep(ctx context.Context, cost uint32, d time.Duration, changed <-chan struct{}) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return &RefusedError{Reason: ErrTooLate, Cost: cost, Wait: d}
	}
	return awake(ctx, d, changed)
}

// awake waits for d, until changed is closed, or until ctx ends, which is an error.
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
