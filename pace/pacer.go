package pace

import (
	"container/list"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"stint"
)

// Pacer applies a limit to callers on one key. Create one for each key and share it between
// goroutines: callers of Wait on the same Pacer are served in order of arrival. The zero Pacer is
// not usable; see [New].
//
// # Methods
//
//	Wait        waits until allowed, or until the context ends; fails at once if the deadline is too early
//	Take        takes units now or not at all
//	TakeAtMost  takes as many units as available
//	Reserve     charges units for later; the result has the time, and can be given back
//	Force       takes units even if that causes a debt; the result has the wait that the debt requires
//	GiveBack    returns units that were taken and not used
//	Reset       resets the key
//	Peek        returns the state
//
// Wait asks the store again when the time has come, so it is exact with every algorithm and any
// number of processes. Within a process the order is that of arrival, whatever the costs; between
// processes there is no order.
//
// Take and TakeAtMost do not overtake waiting callers: they take nothing while there are any. Reserve
// and Force charge immediately, and so delay waiting callers.
//
// # Overdraw and count_denied
//
// A limit with these settings charges denied takes. That is meant for callers that do not wait:
// only Take does so. The other methods, which ask repeatedly, do not charge a denied attempt.
type Pacer struct {
	store     stint.Store
	key       stint.Key
	limit     *stint.Limit
	uncharged *stint.Limit // the same limit without charging denied takes

	giving sync.RWMutex // locked to give a reservation back, read-locked to make one

	mu      sync.Mutex
	line    list.List     // elements are *waiter: callers in Wait, oldest first; the front one has its turn
	units   int64         // units that callers in line still wait for
	last    answer        // last answer for the front
	unknown bool          // a caller with a deadline entered before there was an answer
	changed chan struct{} // closed when the front caller may pass earlier than its last answer
	gate    gate
}

// answer is a decision with the local time of its arrival.
type answer struct {
	stint.Decision
	at time.Time
}

// New returns a pacer of limit on key, with its state in store. It panics if the key is empty, or
// the limit nil or zero.
func New(store stint.Store, key stint.Key, limit *stint.Limit) *Pacer {
	c := stint.Call{Takes: []stint.Take{{Key: key, Limit: limit}}}
	if err := c.Check(); err != nil {
		panic("stint/pace: " + err.Error())
	}
	p := &Pacer{store: store, key: key, limit: limit, uncharged: limit, changed: make(chan struct{}), gate: gate{moved: make(chan struct{})}}
	if spec := limit.Spec(); spec.Overdraw || spec.CountDenied {
		spec.Overdraw, spec.CountDenied = false, false
		p.uncharged = stint.MustLimit(spec) // cannot fail: a valid limit stays valid without these settings
	}
	return p
}

// Take takes cost units if they are available now. A refusal is a decision with Allowed false and
// the wait of the limit. While others are in Wait, or the pacer is paused, Take is refused, and
// RetryAfter is then a lower bound of the wait.
func (p *Pacer) Take(ctx context.Context, cost uint32) (stint.Decision, error) {
	if d, held, err := p.behind(ctx, cost); held || err != nil {
		return d, err
	}
	d, err := p.decide(ctx, stint.Take{Limit: p.limit, Cost: cost})
	p.spent(&d, cost)
	return d, err
}

// TakeAtMost takes as many units as are available, at most n, and returns their number. It is one
// step in the store, see [stint.AskAtMost]: it returns 0 only if nothing was available, and d is then
// the denial of 1 unit.
func (p *Pacer) TakeAtMost(ctx context.Context, n uint32) (taken uint32, d stint.Decision, err error) {
	d, held, err := p.behind(ctx, min(n, 1))
	if n = p.withinGate(n); held || err != nil || n == 0 {
		return 0, d, err
	}
	d, err = p.decide(ctx, stint.Take{Limit: p.uncharged, Cost: n, Op: stint.AskAtMost})
	p.spent(&d, d.Charged)
	return d.Charged, d, err
}

// Force takes cost units even if they are not available: the missing units become a debt, for which
// everybody on the key waits. It returns the wait that the debt requires: a caller that waits so
// long after Force respects the limit. The cost may exceed the capacity of the limit.
//
// For a bucket the wait is exact: until the debt is repaid, or in a leaky_bucket until its place in
// the queue is served. For windows, the log and a bucket with step refill it is the time that the
// same take would have had to wait or, if that could never pass, the time until nothing counts any
// more.
func (p *Pacer) Force(ctx context.Context, cost uint32) (wait time.Duration, d stint.Decision, err error) {
	if cost == 0 {
		d, err = p.Peek(ctx)
		return 0, d, err
	}
	if d, err = p.decide(ctx, stint.Take{Limit: p.uncharged, Cost: cost}); err != nil {
		return 0, d, err
	}
	if d.Allowed {
		held := p.held(cost)
		p.spent(&d, cost)
		return max(d.Delay, held), d, nil
	}
	before := d.RetryAfter
	if d, err = p.decide(ctx, stint.Take{Limit: p.limit, Cost: cost, Op: stint.Force}); err != nil {
		return 0, d, err
	}
	held := p.held(cost)
	p.spent(&d, cost)
	return max(p.debt(&d, cost, before), held), d, nil
}

// debt returns the wait of a forced take; before is the wait that the same take had before it was
// forced.
func (p *Pacer) debt(d *stint.Decision, cost uint32, before time.Duration) time.Duration {
	m := measure(p.limit)
	switch {
	case p.limit.Capacity() == 0:
		return stint.Never
	case m.algorithm == stint.LeakyBucket:
		return max(0, d.ResetAfter-times(int64(cost), m.charge))
	case m.charge > 0:
		return max(0, d.ResetAfter-times(m.most, m.charge))
	case before == stint.Never:
		return d.ResetAfter
	}
	return before
}

// GiveBack returns cost units of the take with decision of: for a bucket, units that were not
// refilled since; for a window, units that it still counts. With a nil decision it lowers the
// current usage. Give back each take at most once.
func (p *Pacer) GiveBack(ctx context.Context, cost uint32, of *stint.Decision) (stint.Decision, error) {
	d, err := p.decide(ctx, stint.Take{Limit: p.limit, Cost: cost, Op: stint.Refund, Undo: of})
	p.stir()
	return d, err
}

// Reset resets the key, so the full limit is available.
func (p *Pacer) Reset(ctx context.Context) error {
	_, err := p.decide(ctx, stint.Take{Limit: p.limit, Op: stint.Reset})
	p.stir()
	return err
}

// Peek returns the state of the limit without taking anything.
func (p *Pacer) Peek(ctx context.Context) (stint.Decision, error) {
	return p.decide(ctx, stint.Take{Limit: p.limit})
}

// calls is a pool of calls.
var calls = sync.Pool{New: func() any { return &stint.Call{Takes: make([]stint.Take, 1)} }}

// decide sends one take on the pacer's key to the store.
func (p *Pacer) decide(ctx context.Context, t stint.Take) (stint.Decision, error) {
	t.Key = p.key
	call := calls.Get().(*stint.Call)
	defer calls.Put(call)
	call.Takes[0] = t
	if err := p.store.Decide(ctx, call); err != nil {
		return stint.Decision{}, fmt.Errorf("asking for %d units: %w", t.Cost, err)
	}
	return call.Results[0], nil
}

// behind returns the decision for a take that must not overtake waiting callers or pass a closed
// gate; held is false if there is neither.
func (p *Pacer) behind(ctx context.Context, cost uint32) (d stint.Decision, held bool, err error) {
	p.mu.Lock()
	now := time.Now()
	wait := p.gate.closed(now, cost)
	ahead := int64(0)
	if cost > 0 && p.line.Len() > 0 {
		ahead = p.units
		wait = max(wait, p.last.RetryAfter-now.Sub(p.last.at))
	}
	p.mu.Unlock()
	if cost == 0 || wait <= 0 && ahead == 0 {
		return d, false, nil
	}
	if d, err = p.Peek(ctx); err != nil {
		return d, false, err
	}
	d.Allowed, d.Remaining, d.Delay = false, 0, 0
	d.RetryAfter = max(wait, 0)
	switch {
	case int64(cost) > d.Limit:
		d.RetryAfter = stint.Never
	case ahead > 0:
		d.RetryAfter = max(wait, measure(p.limit).least(&d, ahead, int64(cost)))
	}
	return d, true, nil
}

// stir makes the front of the line ask again.
func (p *Pacer) stir() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = answer{}
	close(p.changed)
	p.changed = make(chan struct{})
}

// metric has the numbers of a limit from which waits are computed.
type metric struct {
	algorithm stint.Algorithm
	most      int64
	charge    time.Duration // time of one unit; 0 for a limit without continuous refill
	grows     int64         // otherwise: the most units that become available
	each      time.Duration // in this time; 0 if unknown
}

func measure(limit *stint.Limit) metric {
	s := limit.Spec()
	m := metric{algorithm: s.Algorithm, most: limit.Capacity()}
	requests := time.Duration(s.Requests)
	switch {
	case requests == 0:
	case s.Algorithm == stint.TokenBucket && s.Step:
		m.grows, m.each = int64(s.Requests), s.Per
	case s.Algorithm == stint.TokenBucket || s.Algorithm == stint.LeakyBucket:
		m.charge = (s.Per/time.Microsecond + requests - 1) / requests * time.Microsecond
	case s.Algorithm == stint.FixedWindow || s.Algorithm == stint.SlidingLog:
		m.grows, m.each = m.most, s.Per
	}
	return m
}

// least returns a lower bound of the time until cost units pass, if ahead units pass before them
// and the first of these just got decision d. For a bucket with continuous refill it is exact.
func (m metric) least(d *stint.Decision, ahead, cost int64) time.Duration {
	switch {
	case m.algorithm == stint.LeakyBucket && m.charge > 0:
		return max(d.RetryAfter, plus(d.ResetAfter, times(ahead, m.charge)))
	case m.charge > 0:
		need := ahead + cost - m.most
		if need < 0 {
			return max(d.RetryAfter, d.ResetAfter-times(-need, m.charge))
		}
		return max(d.RetryAfter, plus(d.ResetAfter, times(need, m.charge)))
	case m.each > 0:
		// When the first passes, at most the capacity of the limit is available.
		more := (max(0, ahead+cost-m.most) + m.grows - 1) / m.grows
		return plus(d.RetryAfter, times(more, m.each))
	}
	return d.RetryAfter
}

// times returns n*d for non-negative n and d, with an upper bound just below stint.Never.
func times(n int64, d time.Duration) time.Duration {
	if d > 0 && n > (math.MaxInt64-1)/int64(d) {
		return math.MaxInt64 - 1
	}
	return time.Duration(n) * d
}

// plus returns a+b for non-negative a and b. The result is below stint.Never unless a is
// stint.Never.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-1-b {
		return max(a, math.MaxInt64-1)
	}
	return a + b
}
