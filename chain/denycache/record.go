package denycache

import (
	"math"
	"time"

	"stint"
	"stint/internal/transaction"
)

// moment is a time by two clocks in nanoseconds: the monotonic clock, and the wall clock, which
// goes on while the machine sleeps.
type moment struct{ mono, wall int64 }

func (s *Store) now() moment {
	t := s.clock()
	return moment{int64(t.Sub(s.start)), t.UnixNano()}
}

// since returns the time since an earlier moment, the longer of the two clocks.
func (m moment) since(earlier moment) time.Duration {
	return time.Duration(max(m.mono-earlier.mono, m.wall-earlier.wall, 0))
}

// maxNever is how long a denial of a take that can never pass is cached: its other numbers have no
// time at which they become invalid.
const maxNever = 10 * time.Second

// maxDenials is how many denied costs of a key are cached.
const maxDenials = 4

// record is the cached state of a key. Its shard's lock guards it.
type record struct {
	key   stint.Key
	limit *stint.Limit

	newest stint.Decision // the newest answer of the store
	asked  moment         // before the store was called for it
	room   uint32         // units that surely fit since then, if nobody else takes

	denials  []denial // sorted by cost
	gate     gate
	renewing bool // a call renews the record
}

// denial is a cost that was denied.
type denial struct {
	cost  uint32
	asked moment
	retry time.Duration
}

// sameLimit reports whether two limits count alike and deny alike.
func sameLimit(a, b *stint.Limit) bool {
	return a == b || a.ForStores().Same(b) && a.Spec().MinInterval == b.Spec().MinInterval
}

// steady reports whether an answer gives the whole state of the key.
func (r *record) steady() bool { return steady(r.limit) }

func steady(l *stint.Limit) bool {
	return l.Algorithm() == stint.TokenBucket && l.Capacity() > 0 && !l.Spec().Step
}

// countable reports whether the key's state can be computed from a denial. It cannot for a steady
// bucket whose state stands under other numbers, see transaction.Record: the denial follows those.
func countable(t *stint.Take, d *stint.Decision) bool {
	if !steady(t.Limit) {
		return true
	}
	st := stint.State{T: int64(d.At.Add(d.ResetAfter)), Written: d.At}
	return t.Limit.Test(&st, d.At, uint64(transaction.DeniedCost(t))).RetryAfter == d.RetryAfter
}

// outOfDate reports whether the key's full limit is available again, or its window is over, so that
// the record's numbers are no longer right.
func (r *record) outOfDate(now moment) bool {
	return !r.steady() && r.newest.ResetAfter > 0 && now.since(r.asked) >= r.newest.ResetAfter
}

// left returns how long a denial is still valid, 0 if it is over.
func (d *denial) left(now moment, maxAge time.Duration) time.Duration {
	ago := now.since(d.asked)
	switch {
	case d.retry == stint.Never && ago < min(maxNever, maxAge):
		return stint.Never
	case d.retry == stint.Never || ago >= min(d.retry, maxAge):
		return 0
	}
	return d.retry - ago.Truncate(time.Microsecond)
}

// refuses returns the denial of a take with that cost and the age of the store's answer. ok reports
// whether the denial is certain.
func (r *record) refuses(cost uint32, now moment, maxAge time.Duration) (d stint.Decision, age time.Duration, ok bool) {
	penalty := r.limit.Algorithm() == stint.Penalty // denies any cost or none
	steady, over := r.steady(), int64(cost) > r.limit.Capacity() && !penalty
	smaller := steady || over || penalty || r.limit.Algorithm() == stint.FixedWindow // smaller denied costs also deny it
	live, left := false, time.Duration(0)
	age = math.MaxInt64
	for i := range r.denials {
		dn := &r.denials[i]
		if dn.cost > cost {
			break
		}
		this := dn.left(now, maxAge)
		live = live || this > 0
		if dn.cost == cost || smaller {
			left, age = max(left, this), min(age, now.since(dn.asked))
		}
	}
	switch {
	case !live || r.outOfDate(now):
		return d, age, false
	case steady:
		d = r.count(cost, now)
		return d, age, !d.Allowed
	case over:
		left = stint.Never
	}
	d = r.show(now)
	d.Allowed, d.Own, d.RetryAfter = false, true, left
	return d, age, left > 0
}

// fits returns the answer to a take with that cost in a call that another take denies. ok reports
// whether it surely would pass.
func (r *record) fits(cost uint32, now moment, maxAge time.Duration) (d stint.Decision, ok bool) {
	if now.since(r.asked) >= maxAge || r.outOfDate(now) {
		return d, false
	}
	if r.steady() {
		return r.count(0, now), cost == 0 || r.count(cost, now).Allowed
	}
	return r.show(now), cost <= r.room
}

// count returns the answer of a steady bucket from which nobody has taken since.
func (r *record) count(cost uint32, now moment) stint.Decision {
	st := stint.State{T: int64(r.newest.At.Add(r.newest.ResetAfter)), Written: r.newest.At}
	d := r.limit.Test(&st, r.newest.At.Add(now.since(r.asked)), uint64(cost))
	d.Own = !d.Allowed
	return d
}

// show returns the newest answer as of now, as for a peek.
func (r *record) show(now moment) stint.Decision {
	ago := now.since(r.asked).Truncate(time.Microsecond)
	return stint.Decision{
		Allowed: true, Limit: r.newest.Limit, Remaining: r.newest.Remaining, Debt: r.newest.Debt,
		ResetAfter: max(0, r.newest.ResetAfter-ago), At: r.newest.At.Add(ago),
	}
}

// setBack is after which time an answer counts as newer than another one even if its server's time
// is earlier: that clock was set back.
const setBack = time.Second

// update stores an answer of the store as the newest. It returns false if the record has a newer
// one. fit is a cost that would still pass.
func (r *record) update(d stint.Decision, asked moment, fit uint32) bool {
	older := d.At < r.newest.At || d.At == r.newest.At && d.Remaining > r.newest.Remaining
	if older && asked.since(r.asked) < setBack {
		return false
	}
	r.newest, r.asked, r.room = d, asked, fit
	if r.limit.Spec().MinInterval == 0 {
		r.room = uint32(min(d.Remaining, stint.MaxCost))
	}
	return true
}

// deny stores a denial of a cost, in place of an earlier one of that cost.
func (r *record) deny(cost uint32, asked moment, retry time.Duration) {
	at := 0
	for at < len(r.denials) && r.denials[at].cost < cost {
		at++
	}
	switch {
	case at < len(r.denials) && r.denials[at].cost == cost:
		r.denials[at] = denial{cost, asked, retry}
		return
	case len(r.denials) == maxDenials && at == maxDenials:
		at-- // the smaller costs are more useful
		r.denials[at] = denial{cost, asked, retry}
		return
	case len(r.denials) == maxDenials:
		r.denials = r.denials[:maxDenials-1]
	}
	r.denials = append(r.denials, denial{})
	copy(r.denials[at+1:], r.denials[at:])
	r.denials[at] = denial{cost, asked, retry}
}

// grace is how long a key stays in the cache after its retry time, for the clients that come then.
const grace = 5 * time.Second

// over reports whether the record is no longer of use.
func (r *record) over(now moment, maxAge time.Duration) bool {
	for i := range r.denials {
		dn := &r.denials[i]
		if now.since(dn.asked)-grace < min(dn.retry, maxAge) {
			return false
		}
	}
	return len(r.denials) > 0 || now.since(r.asked) >= min(maxAge, r.newest.ResetAfter)
}

// gate bounds how many calls about a key go to the store at once when its retry time is over.
type gate struct {
	cost   uint32 // smallest cost that must pass the gate
	open   int    // how many calls at once; 0: no bound
	asking int
	change chan struct{} // closed when a call has its answer; nil while nobody waits
}

// maxOpen is the bound from which on no gate is needed.
const maxOpen = 64

// enter admits a call and returns nil, or returns what it must wait for.
func (g *gate) enter() (wait <-chan struct{}) {
	if g.asking < g.open {
		g.asking++
		return nil
	}
	if g.change == nil {
		g.change = make(chan struct{})
	}
	return g.change
}

// leave ends a call to the store, and wakes all that wait.
func (g *gate) leave() {
	g.asking--
	g.wake()
}

func (g *gate) wake() {
	if g.change != nil {
		close(g.change)
		g.change = nil
	}
}

// recordSize is the memory of a record in bytes, with its place in the map, without its key.
const recordSize = 384
