package memcached

import (
	"context"
	"fmt"
	"time"

	"stint"
	"stint/internal/transaction"
)

// query is one operation on one key.
type query struct {
	key   stint.Key
	limit *stint.Limit
	phase transaction.Phase // Charge, unless it is a step of several
	op    stint.Op          // also transaction.DebitCapped
	cost  uint64
	undo  *stint.Decision
	at    stint.Instant // Call.At
}

// apply does the operation on a state, with the arithmetic of the root package.
func (q *query) apply(r *transaction.Record, now stint.Instant) stint.Decision {
	switch {
	case q.phase == transaction.Look, q.phase == transaction.Deny && q.op != stint.Ask:
		return r.Test(q.limit, now, 0)
	case q.phase == transaction.Test:
		return r.Test(q.limit, now, q.cost)
	case q.phase == transaction.Deny && !q.limit.ForStores().Overdraws():
		if d := r.Test(q.limit, now, q.cost); d.Allowed { // it fits meanwhile, and must not be charged
			return d
		}
	case q.op == transaction.DebitCapped:
		return r.DebitCapped(q.limit, now, q.cost)
	}
	return r.Apply(q.op, q.limit, now, q.cost, q.undo)
}

// takes reports whether the operation takes units of the key if they are there.
func (q *query) takes() bool {
	return q.phase == transaction.Charge && q.op.Asks() && q.cost > 0
}

// now returns the time of a decision.
func (s *Store) now(at stint.Instant) stint.Instant {
	if at != 0 {
		return at
	}
	return stint.At(s.clock())
}

// ask does the operation of a query. writes reports, for a test, that a denied take would change the
// state.
func (s *Store) ask(ctx context.Context, q *query) (d stint.Decision, writes bool, err error) {
	switch {
	case q.limit.Algorithm() == stint.Unlimited:
		d = q.limit.Test(nil, s.now(q.at), q.cost)
		if q.op == stint.AskAtMost {
			d.Charge(q.cost)
		}
		return d, false, nil
	case s.counted(q.limit):
		d, err = s.count(ctx, q)
		return d, false, err
	case q.phase == transaction.Test || q.phase == transaction.Look:
		return s.test(ctx, q)
	}
	d, err = s.change(ctx, q)
	return d, false, err
}

// Times to live.
const (
	// spare is how much longer than needed memcached keeps a state, so that clocks which differ admit
	// nothing twice. spareNotPresent is that of calls whose At is not the present.
	spare           = 15 * time.Second
	spareNotPresent = time.Hour

	// presentRange is how far Call.At may be from this node's clock to count as the present.
	presentRange = 5 * time.Second
)

// life returns for how long memcached keeps what a query at now writes, and what is needed until end.
func (s *Store) life(q *query, now, end stint.Instant) time.Duration {
	if q.at != 0 {
		if off := stint.At(s.clock()).Sub(q.at); off > presentRange || off < -presentRange {
			return max(0, end.Sub(now)) + spareNotPresent
		}
	}
	return max(0, end.Sub(now)) + spare
}

// errNotSent wraps the end of a caller's context before anything was sent.
func errNotSent(err error) error { return fmt.Errorf("memcached: not sent: %w", err) }
