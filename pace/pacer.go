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

// Pacer holds callers to one limit on one key. Make one for each key and share it
// between goroutines: those that Wait on the same Pacer are served in the order in
// which they came. The zero Pacer is not usable; see [New].
//
// # The verbs
//
//	Wait      until allowed, or the context ends; at once if the deadline is too early
//	Take      now or not at all
//	TakeUpTo  as much as there is
//	Reserve   now for later: the answer says when, and can be given back
//	Force     now, into debt if need be; the answer says what wait the debt costs
//	GiveBack  what was taken and not used
//	Reset     forget the key
//	Peek      look
//
// Wait asks the store again when the time is due, so it is exact with every
// algorithm and however many processes share the key. Within one process the order
// is that of arrival, whatever the costs; between processes there is none.
//
// Take and TakeUpTo stand behind those that wait: they take nothing while somebody
// does. Reserve and Force charge at once, and so delay whoever waits.
//
// # Overdraw and count_denied
//
// A limit with these words charges what it denies. That is meant for whoever does not
// wait: Take charges so, while the other verbs, which ask again by themselves, leave a
// denied try uncharged.
type Pacer struct {
	store stint.Store
	key   stint.Key
	limit *stint.Limit
	quiet *stint.Limit // the same, but it never charges what it denies

	giving sync.RWMutex // locked to give a reservation back, read-locked to make one

	mu      sync.Mutex
	line    list.List     // of *waiter: those in Wait, oldest first; it is the front's turn
	units   int64         // that those in line still wait for
	last    answer        // to the front
	unknown bool          // whether somebody with a deadline came before there was an answer
	changed chan struct{} // closed when the front may pass sooner than it was told
	gate    gate
}

// answer is a decision with the local time of its arrival.
type answer struct {
	stint.Decision
	at time.Time
}

// New returns a pacer of limit on key, whose state is in store. It panics where the key is
// empty, or the limit nil or zero.
func New(store stint.Store, key stint.Key, limit *stint.Limit) *Pacer {
	c := stint.Call{Takes: []stint.Take{{Key: key, Limit: limit}}}
	if err := c.Check(); err != nil {
		panic("stint/pace: " + err.Error())
	}
	p := &Pacer{store: store, key: key, limit: limit, quiet: limit, changed: make(chan struct{}), gate: gate{moved: make(chan struct{})}}
	if spec := limit.Spec(); spec.Overdraw || spec.CountDenied {
		spec.Overdraw, spec.CountDenied = false, false
		p.quiet = stint.MustLimit(spec) // a checked limit stays one without these words
	}
	return p
}

// Take takes cost units if they are there now. A refusal is a decision that is not
// Allowed, with the wait as the limit tells it. While others Wait, or the pacer is
// paused, it is refused, and RetryAfter is then the least that the wait can be.
func (p *Pacer) Take(ctx context.Context, cost uint32) (stint.Decision, error) {
	if d, held, err := p.behind(ctx, cost); held || err != nil {
		return d, err
	}
	d, err := p.decide(ctx, stint.Take{Limit: p.limit, Cost: cost})
	p.spent(&d, cost)
	return d, err
}

// TakeUpTo takes as many units as there are, n at most, and returns how many.
//
// What it takes is one take of the store, so no other caller ever sees a part of it,
// and nothing is taken and given back. But to learn how many there are it asks for n
// first, and then for what was left. If another caller takes some of that in between,
// it asks again for fewer; what is refilled or given back in between stays there. So
// it returns 0 only if nothing could be taken at some instant of the call.
func (p *Pacer) TakeUpTo(ctx context.Context, n uint32) (taken uint32, d stint.Decision, err error) {
	d, held, err := p.behind(ctx, min(n, 1))
	if held || err != nil {
		return 0, d, err
	}
	n = p.withinGate(n)
	for n > 0 {
		d, err = p.decide(ctx, stint.Take{Limit: p.quiet, Cost: n})
		if err != nil {
			return 0, d, err
		}
		if d.Allowed {
			p.spent(&d, n)
			return n, d, nil
		}
		if d.Remaining >= int64(n) { // denied for another reason: a least distance
			return 0, d, nil
		}
		n = uint32(d.Remaining)
	}
	return 0, d, nil
}

// Force takes cost units whatever there is: what is missing becomes a debt, which
// everybody on the key waits for. It returns the wait that the debt costs: whoever
// forces and then waits so long keeps the limit. A cost may be more than the limit
// holds.
//
// For a bucket the wait is exact: until the debt is worked off, or in a leaky_bucket
// until its place is served. The windows, the log and a bucket that refills in steps
// tell how long the same take would have had to wait, and where it could never pass,
// how long until nothing counts any more.
func (p *Pacer) Force(ctx context.Context, cost uint32) (wait time.Duration, d stint.Decision, err error) {
	if cost == 0 {
		d, err = p.Peek(ctx)
		return 0, d, err
	}
	if d, err = p.decide(ctx, stint.Take{Limit: p.quiet, Cost: cost}); err != nil {
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

// debt returns how long a forced take waits; before is what the same take was told
// when it asked.
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

// GiveBack gives back cost units of the take that of answered: of a bucket what has
// not been refilled since, of a window what it still counts. With of nil it lowers
// what is used now. Give back each take once.
func (p *Pacer) GiveBack(ctx context.Context, cost uint32, of *stint.Decision) (stint.Decision, error) {
	d, err := p.decide(ctx, stint.Take{Limit: p.limit, Cost: cost, Op: stint.Refund, Undo: of})
	p.stir()
	return d, err
}

// Reset forgets the key: it is as if never touched.
func (p *Pacer) Reset(ctx context.Context) error {
	_, err := p.decide(ctx, stint.Take{Limit: p.limit, Op: stint.Reset})
	p.stir()
	return err
}

// Peek returns the state of the limit without taking.
func (p *Pacer) Peek(ctx context.Context) (stint.Decision, error) {
	return p.decide(ctx, stint.Take{Limit: p.limit})
}

// calls are the memory of calls that are not under way.
var calls = sync.Pool{New: func() any { return &stint.Call{Takes: make([]stint.Take, 1)} }}

// decide puts one take on the pacer's key to the store.
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

// behind answers for the takes that are not to go before those that wait, nor past a
// closed gate.
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

// stir makes whoever's turn it is ask again.
func (p *Pacer) stir() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = answer{}
	close(p.changed)
	p.changed = make(chan struct{})
}

// metric is what of a limit the waits are computed from.
type metric struct {
	algorithm stint.Algorithm
	most      int64
	charge    time.Duration // of one unit; 0 for what is not a steady bucket
	grows     int64         // else: so many units more at most
	each      time.Duration // in so much time; 0: not known
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

// least returns a time before which cost units cannot pass if ahead units pass before
// them, and the first of those was just answered d. For a steady bucket it is exact.
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
		// When the first passes there are at most so many units as the limit holds.
		more := (max(0, ahead+cost-m.most) + m.grows - 1) / m.grows
		return plus(d.RetryAfter, times(more, m.each))
	}
	return d.RetryAfter
}

// times returns n*d for n and d that are not negative, below stint.Never.
func times(n int64, d time.Duration) time.Duration {
	if d > 0 && n > (math.MaxInt64-1)/int64(d) {
		return math.MaxInt64 - 1
	}
	return time.Duration(n) * d
}

// plus returns a+b for a and b that are not negative, below stint.Never unless a is.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-1-b {
		return max(a, math.MaxInt64-1)
	}
	return a + b
}
