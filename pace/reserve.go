package pace

import (
	"context"
	"sync/atomic"
	"time"

	"stint"
)

// Reservation is a take for a later time: its units are charged, and may be used after Delay. It is
// safe for concurrent use.
type Reservation struct {
	pacer    *Pacer
	cost     uint32
	decision stint.Decision
	due      time.Time
	back     atomic.Bool
}

// Reserve charges cost units now, to be used as soon as the limit allows, at the latest within from
// now: 0 means now or not at all, stint.Never any time. The result has the time. A refusal takes
// nothing and is wrapped in a [RefusedError]: ErrTooLate, ErrNever, or ErrNoPromise if the
// algorithm cannot promise a time.
//
// A token_bucket with continuous refill promises by a debt: the units are a forced take, so nobody
// else can get them, and the wait is exact to the microsecond. A leaky_bucket promises a place in
// its queue, which may be full. Windows and logs promise nothing: their later state depends on
// other takes, and a debt ends with its window. A bucket with step refill promises nothing either.
//
// A reservation precedes callers in Wait, who have charged nothing yet.
func (p *Pacer) Reserve(ctx context.Context, cost uint32, within time.Duration) (*Reservation, error) {
	m := measure(p.limit)
	if m.algorithm != stint.Unlimited && p.limit.Capacity() > 0 && m.charge == 0 {
		return nil, &RefusedError{Reason: ErrNoPromise, Cost: cost}
	}
	if int64(cost) > p.limit.Capacity() {
		return nil, &RefusedError{Reason: ErrNever, Cost: cost, Wait: stint.Never}
	}
	held := p.held(cost)
	if held > within {
		return nil, &RefusedError{Reason: ErrTooLate, Cost: cost, Wait: held}
	}
	d, delay, err := p.promise(ctx, cost, within)
	if err != nil {
		return nil, err
	}
	p.spent(&d, cost)
	r := &Reservation{pacer: p, cost: cost, decision: d, due: time.Now().Add(max(delay, held))}
	if delay > within { // because of the queue of a leaky bucket, or another caller's take in between
		if err := r.GiveBack(ctx); err != nil {
			return nil, err
		}
		return nil, &RefusedError{Reason: ErrTooLate, Cost: cost, Wait: delay}
	}
	return r, nil
}

// promise charges cost units and returns how long until they may be used.
func (p *Pacer) promise(ctx context.Context, cost uint32, within time.Duration) (stint.Decision, time.Duration, error) {
	p.giving.RLock()
	defer p.giving.RUnlock()
	d, err := p.decide(ctx, stint.Take{Limit: p.uncharged, Cost: cost})
	if err != nil || d.Allowed {
		return d, d.Delay, err
	}
	if d.RetryAfter > within || p.limit.Algorithm() == stint.LeakyBucket {
		return d, 0, &RefusedError{Reason: ErrTooLate, Cost: cost, Wait: d.RetryAfter}
	}
	d, err = p.decide(ctx, stint.Take{Limit: p.limit, Cost: cost, Op: stint.Force})
	return d, p.debt(&d, cost, 0), err
}

// Delay returns the time until the units may be used; 0 if they may be used now.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.due)) }

// Decision returns the decision of the reservation's take.
func (r *Reservation) Decision() stint.Decision { return r.decision }

// Wait returns nil when the units may be used. If ctx ends earlier, or its deadline is earlier, it
// gives the reservation back and returns an error.
func (r *Reservation) Wait(ctx context.Context) error {
	err := sleep(ctx, r.cost, r.Delay(), nil)
	if err != nil {
		// On failure the units stay charged, which only makes the limit stricter.
		_ = r.GiveBack(context.WithoutCancel(ctx))
	}
	return err
}

// GiveBack gives the units back; a second call does nothing. Units that were refilled since are not
// given back.
//
// If other reservations were queued behind this one and their time has not come, it is not given
// back: their times are fixed, so a caller that got its units would pass at the same time as they
// do, and more would pass than the limit allows. Its time then stays unused, like a place in a
// leaky bucket. To find out whether there are others, GiveBack makes two calls to the store; a
// reservation that another process makes between them is missed.
//
// An error means that the units may still be charged; GiveBack does not retry.
func (r *Reservation) GiveBack(ctx context.Context) error {
	if r.cost == 0 || r.back.Swap(true) {
		return nil
	}
	p := r.pacer
	p.giving.Lock()
	defer p.giving.Unlock()
	if m := measure(p.limit); m.algorithm == stint.TokenBucket {
		d, err := p.Peek(ctx)
		if err != nil {
			return err
		}
		debt := d.ResetAfter > times(m.most, m.charge)
		if debt && d.At.Add(d.ResetAfter) > r.decision.At.Add(r.decision.ResetAfter) {
			return nil
		}
	}
	_, err := p.GiveBack(ctx, r.cost, &r.decision)
	return err
}
