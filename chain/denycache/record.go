package denycache

import (
	"math"
	"time"

	"stint"
)

// moment is a time by two clocks: one that nobody sets, and one that goes on while the
// machine sleeps.
type moment struct{ mono, wall int64 } // nanoseconds

func (s *Store) now() moment {
	t := s.clock()
	return moment{int64(t.Sub(s.born)), t.UnixNano()}
}

// since returns how long ago an earlier moment was, the longer of the two.
func (m moment) since(earlier moment) time.Duration {
	return time.Duration(max(m.mono-earlier.mono, m.wall-earlier.wall, 0))
}

// maxNever is how long a take is refused from memory that can never pass: nothing says
// when the numbers beside that are out of date.
const maxNever = 10 * time.Second

// maxDenials is how many costs of a key are remembered as refused.
const maxDenials = 4

// record is what is known of a key. Its shard's lock guards it.
type record struct {
	key   stint.Key
	limit *stint.Limit

	said  stint.Decision // the newest answer of the store
	asked moment         // before it was asked for
	room  uint32         // what surely fits since then, if nobody else takes

	denials  []denial // by cost
	gate     gate
	renewing bool // a call asks for it anew
}

// denial is a cost that was refused.
type denial struct {
	cost  uint32
	asked moment
	retry time.Duration
}

// alike says whether two limits count alike and refuse alike.
func alike(a, b *stint.Limit) bool {
	return a == b || a.ForStores().Same(b) && a.Spec().MinInterval == b.Spec().MinInterval
}

// steady says whether an answer tells the whole state of a key.
func (r *record) steady() bool { return steady(r.limit) }

func steady(l *stint.Limit) bool {
	return l.Algorithm() == stint.TokenBucket && l.Capacity() > 0 && !l.Spec().Step
}

// counts says whether a refusal can be counted on from what it tells. That of a steady
// bucket cannot while its state stands under other numbers, see migrate.Record: it goes by
// those.
func counts(t *stint.Take, d *stint.Decision) bool {
	if !steady(t.Limit) {
		return true
	}
	st := stint.State{T: int64(d.At.Add(d.ResetAfter)), Written: d.At}
	return t.Limit.Test(&st, d.At, uint64(t.Cost)).RetryAfter == d.RetryAfter
}

// faded says whether the key is as if never touched again, or its window is over, so that
// other numbers would be shown than what is known.
func (r *record) faded(now moment) bool {
	return !r.steady() && r.said.ResetAfter > 0 && now.since(r.asked) >= r.said.ResetAfter
}

// left returns what is left of a denial, 0 if it is over.
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

// refuses returns the refusal of a take of that cost, if it is certain, and how long ago the
// store said it.
func (r *record) refuses(cost uint32, now moment, maxAge time.Duration) (d stint.Decision, age time.Duration, ok bool) {
	steady, over := r.steady(), int64(cost) > r.limit.Capacity()
	smaller := steady || over || r.limit.Algorithm() == stint.FixedWindow // denials refuse it too
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
	case !live || r.faded(now):
		return d, age, false
	case steady:
		d = r.count(cost, now)
		return d, age, !d.Allowed
	case over:
		left = stint.Never
	}
	d = r.show(now)
	d.Allowed, d.RetryAfter = false, left
	return d, age, left > 0
}

// fits returns the answer to a take of that cost in a call that another take denies, if
// it is certain that this one would pass.
func (r *record) fits(cost uint32, now moment, maxAge time.Duration) (d stint.Decision, ok bool) {
	if now.since(r.asked) >= maxAge || r.faded(now) {
		return d, false
	}
	if r.steady() {
		return r.count(0, now), cost == 0 || r.count(cost, now).Allowed
	}
	return r.show(now), cost <= r.room
}

// count returns the answer of a steady bucket in which nobody took anything since.
func (r *record) count(cost uint32, now moment) stint.Decision {
	st := stint.State{T: int64(r.said.At.Add(r.said.ResetAfter)), Written: r.said.At}
	return r.limit.Test(&st, r.said.At.Add(now.since(r.asked)), uint64(cost))
}

// show returns the newest answer as it reads now, as that to a peek.
func (r *record) show(now moment) stint.Decision {
	ago := now.since(r.asked).Truncate(time.Microsecond)
	return stint.Decision{
		Allowed: true, Limit: r.said.Limit, Remaining: r.said.Remaining,
		ResetAfter: max(0, r.said.ResetAfter-ago), At: r.said.At.Add(ago),
	}
}

// setBack is how much later an answer was asked for that is not older than another one,
// though its server's clock says so: that was set back.
const setBack = time.Second

// learn makes an answer of the store the newest; false if a newer one is known. fit is
// a cost that would still pass.
func (r *record) learn(said stint.Decision, asked moment, fit uint32) bool {
	older := said.At < r.said.At || said.At == r.said.At && said.Remaining > r.said.Remaining
	if older && asked.since(r.asked) < setBack {
		return false
	}
	r.said, r.asked, r.room = said, asked, fit
	if r.limit.Spec().MinInterval == 0 {
		r.room = uint32(min(said.Remaining, stint.MaxCost))
	}
	return true
}

// deny remembers that a cost was refused, instead of what else was known of it.
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
		at-- // the smaller costs are worth more
		r.denials[at] = denial{cost, asked, retry}
		return
	case len(r.denials) == maxDenials:
		r.denials = r.denials[:maxDenials-1]
	}
	r.denials = append(r.denials, denial{})
	copy(r.denials[at+1:], r.denials[at:])
	r.denials[at] = denial{cost, asked, retry}
}

// grace is how long a key is remembered whose retry time is over, for those who come
// then.
const grace = 5 * time.Second

// over says whether the record is of no use any more.
func (r *record) over(now moment, maxAge time.Duration) bool {
	for i := range r.denials {
		dn := &r.denials[i]
		if now.since(dn.asked)-grace < min(dn.retry, maxAge) {
			return false
		}
	}
	return len(r.denials) > 0 || now.since(r.asked) >= min(maxAge, r.said.ResetAfter)
}

// gate bounds how many ask the store about a key at once when its retry time is over.
type gate struct {
	cost   uint32 // from which on a take passes through it
	open   int    // so many at once; 0: any number
	asking int
	change chan struct{} // closed when one has its answer; nil while nobody waits
}

// maxOpen is from how many on they need no gate.
const maxOpen = 64

// enter lets a take of that cost ask, or returns what it has to wait for.
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

// leave ends what one asked, and lets all look again.
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

// size of a record beside its key, with its place in the map.
const recordSize = 384
