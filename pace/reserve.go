package pace

import (
	"context"
	"sync/atomic"
	"time"

	"stint"
)

// Reservation is a take whose time is known: its units are charged, and may be used
// once Delay has passed. It is safe for concurrent use.
type Reservation struct {
	pacer    *Pacer
	cost     uint32
	decision stint.Decision
	due      time.Time
	back     atomic.Bool
}

// Reserve charges cost units now for use as soon as the limit allows them, but not
// later than within from now: 0 for now or never, stint.Never for any time. The
// answer says when. It refuses, with nothing taken and wrapped in a [RefusedError],
// with ErrTooLate, with ErrNever, or with ErrNoPromise where the algorithm cannot
// promise a time.
//
// A token_bucket that refills steadily promises by a debt: the units are a forced
// take, so nobody can have them twice, and its wait is exact to the microsecond. A
// leaky_bucket promises a place in its queue, which may be full. Windows and logs
// promise nothing: what they will hold then depends on who else takes, and a debt is
// forgotten with its window. Nor does a bucket that refills in steps.
//
// A reservation goes before those in Wait, who have charged nothing yet.
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
	if delay > within { // the queue of a leaky bucket, or another caller came between
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
	d, err := p.decide(ctx, stint.Take{Limit: p.quiet, Cost: cost})
	if err != nil || d.Allowed {
		return d, d.Delay, err
	}
	if d.RetryAfter > within || p.limit.Algorithm() == stint.LeakyBucket {
		return d, 0, &RefusedError{Reason: ErrTooLate, Cost: cost, Wait: d.RetryAfter}
	}
	d, err = p.decide(ctx, stint.Take{Limit: p.limit, Cost: cost, Op: stint.Force})
	return d, p.debt(&d, cost, 0), err
}

// Delay returns how long until the units may be used; 0 once they may.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.due)) }

// Decision returns the answer to the take that the reservation is.
func (r *Reservation) Decision() stint.Decision { return r.decision }

// Wait returns nil once the units may be used. Where ctx ends before, or its deadline
// comes before, it gives the reservation back and returns an error.
func (r *Reservation) Wait(ctx context.Context) error {
	err := sleep(ctx, r.cost, r.Delay(), nil)
	if err != nil {
		// What was not given back stays charged, which only makes the limit stricter.
		_ = r.GiveBack(context.WithoutCancel(ctx))
	}
	return err
}

// GiveBack gives the units back; a second call does nothing. What has been refilled
// since is not given out again.
//
// A reservation that others have queued behind is not given back while they are still
// to come: their times stand, and whoever got its units would come at the same time as
// they and more would pass than the limit allows. Its time then passes unused, as a
// place in a leaky bucket does. To learn whether others queued, it looks and then
// gives back, which is two calls of the store: what another process reserves just
// between them is overlooked.
//
// An error means that the units may still be charged; it is not tried again.
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
