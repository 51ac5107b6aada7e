package stint

import (
	"math"
	"math/bits"
	"sort"
	"time"
)

// When the numbers of a limit change, a key keeps its use. Either the new numbers read the
// state as it stands, see Reads, or what counts as taken under the old ones, debts whole, was
// just taken from an untouched key (of a log: at its newest entry). Whole units count; a steady
// bucket is exact, rounded up by at most a microsecond.

// reads is [StoreLimit.Reads].
func (l *Limit) reads(other *Limit) bool {
	a, b := &l.spec, &other.spec
	switch {
	case l == other, a.Algorithm == Penalty && b.Algorithm == Penalty:
		return true
	case a.Algorithm != b.Algorithm || a.Per != b.Per:
		return false
	case a.Algorithm == TokenBucket, a.Algorithm == LeakyBucket:
		return a.Requests == b.Requests && a.Step == b.Step && a.Reserve == b.Reserve
	}
	return a.FromFirst == b.FromFirst && a.CarryDebt == b.CarryDebt && a.Blocks == b.Blocks && a.sameCalendar(b)
}

// migrate is [StoreLimit.Migrate].
func (l *Limit) migrate(st *State, old *Limit, now Instant) {
	switch {
	case l.same(old):
	case l.spec.Algorithm != old.spec.Algorithm || old.most == 0 || l.most == 0:
		*st = State{}
	case l.reads(old):
		old.present(st, now)
		old.writeOff(st, now)
		l.adopt(st, old, now)
		l.present(st, now)
	default:
		deferred := old.deferred(st)
		old.turn(st, now)
		old.writeOff(st, now)
		l.convert(st, old, now, deferred)
		l.present(st, now)
	}
}

// adopt reads a state of old as it stands.
func (l *Limit) adopt(st *State, old *Limit, now Instant) {
	if l.spec.Algorithm == SlidingLog && !st.Log.empty() {
		st.N = max(st.N, old.most)
	}
	l.deferLess(st)
	l.roll(st, now)
	l.mark(st, now)
	if !l.leasable() {
		st.lending = nil
	}
	if l.Untouched(st, now) {
		*st = State{lending: st.lending}
	}
}

// convert makes the state that of an untouched key from which the units used under old were just
// taken. Deferred units count from now on, because the time of their newest entry is unknown.
func (l *Limit) convert(st *State, old *Limit, now Instant, deferred bool) {
	was := *st
	used := int64(0)
	if !old.spec.StartUsedUp || !old.Untouched(st, now) { // what such a key begins with was not taken
		used = old.used(st, now)
	}
	*st = State{}
	if l.leasable() {
		st.lending = was.lending
	}
	if used == 0 {
		return
	}
	switch l.spec.Algorithm {
	case TokenBucket, LeakyBucket:
		st.T = l.bucketAdd(0, now, used)
		if !l.spec.Step && !old.spec.Step {
			st.T = min(int64(now)+mulDivUp(old.level(&was, now), l.charge, old.charge), int64(endOfTime))
		}
	case FixedWindow:
		start, _ := l.windowOf(st, int64(now))
		st.T, st.N = start, min(used, l.deferMost(start))
	case SlidingLog:
		at := now
		if !deferred {
			at, _ = was.Log.Newest()
		}
		st.log().push(int64(at), uint64(used))
		st.N = max(was.N, old.most)
	case SlidingWindow:
		st.log().push(int64(now)/l.block, uint64(used))
	}
	if l.charge == 0 && !l.spec.CarryDebt && used > l.most {
		st.Written = now
		l.deferLess(st)
		l.roll(st, now)
	}
	if l.spec.Algorithm == SlidingLog && l.Untouched(st, now) {
		*st = State{}
	}
	l.mark(st, now)
}

// level returns the used units of a bucket at now, by its clock.
func (l *Limit) level(st *State, now Instant) int64 {
	t, _ := l.unlent(st, now)
	if l.spec.Reserve {
		now = st.reservedTime(now)
		t, _ = l.reservedAt(st, now)
	}
	return max(0, t-l.clock(now))
}

// mulDivUp returns a*b/c rounded up, at most 2^62: a time may be added to that.
func mulDivUp(a, b, c int64) int64 {
	const most = 1 << 62
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return most
	}
	q, rest := bits.Div64(hi, lo, uint64(c))
	if rest > 0 && q < most {
		q++
	}
	return int64(min(q, most))
}

// waitFor is [StoreLimit.WaitFor].
func (l *Limit) waitFor(st *State, old *Limit, now Instant, cost uint64) time.Duration {
	deferred := old.deferred(st)
	st = old.seen(st, now)
	left := l.most - int64(cost)
	if l.charge > 0 {
		return span(max(0, old.bucketUntil(st, now, l.levelAllowed(old, left))-int64(now)))
	}
	if l.spec.Algorithm == SlidingLog && !deferred {
		return span(max(0, l.logWait(st, old, now, left)-int64(now)))
	}
	if l.spec.MinInterval > 0 {
		left = 0
	}
	return span(max(0, old.until(st, now, left)-int64(now)))
}

// until returns when no more than left units count as taken of a window or log.
func (l *Limit) until(st *State, now Instant, left int64) int64 {
	if l.used(st, now) <= left {
		return int64(now)
	}
	cost := l.most - left // below 0 where there may be debt
	switch l.spec.Algorithm {
	case FixedWindow:
		return int64(now) + l.windowRetry(st, int64(now), cost)
	case SlidingLog:
		return l.logUntil(st, int64(st.Log.total)-left)
	}
	return int64(now) + l.blocksRetry(st, now, cost)
}

// levelAllowed returns how much of old may be used, by its clock, if that many units of l may be.
func (l *Limit) levelAllowed(old *Limit, left int64) int64 {
	if l.spec.Step || old.spec.Step {
		if !l.spec.Step {
			left = min(left, l.wait/l.charge)
		}
		return mulSat(left, old.charge)
	}
	level := min(left*l.charge, l.wait)
	hi, lo := bits.Mul64(uint64(level), uint64(old.charge))
	if hi >= uint64(l.charge) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(l.charge))
	return int64(min(q, math.MaxInt64))
}

// bucketUntil returns when no more is used of a bucket than a level, by its clock, if nothing
// comes back that is lent or reserved.
func (l *Limit) bucketUntil(st *State, now Instant, level int64) int64 {
	t, off := l.unlent(st, now)
	kept, ends := int64(0), []entry(nil) // units that are not refilled, and until when
	switch {
	case l.spec.Reserve:
		now = st.reservedTime(now)
		t, _ = l.reservedAt(st, now)
		st.Log.each(func(e entry) bool {
			if end := Instant(e.at).Add(MaxReservation); end > now {
				ends, kept = append(ends, entry{int64(end), e.n}), kept+int64(e.n)
			}
			return true
		})
	case l.smooth && st.lending != nil:
		for _, o := range st.lending.list[off:] {
			ends, kept = append(ends, entry{int64(o.until()), uint64(o.lent)}), kept+o.lent
		}
	}
	for _, e := range ends {
		ready := max(int64(now), l.unclock(t-level))
		if mulSat(kept, l.charge) <= level && ready < e.at {
			return ready
		}
		t = l.reserve(t, Instant(e.at), kept)
		kept -= int64(e.n)
	}
	return max(int64(now), l.unclock(max(0, t-level)))
}

// logUntil returns when that many of the oldest units of a log have expired.
func (l *Limit) logUntil(st *State, over int64) int64 {
	ready := int64(0)
	if l.deferred(st) {
		return st.Log.tail.at + l.spans(max(0, over))*l.per
	}
	st.Log.each(func(e entry) bool {
		if over <= 0 {
			return false
		}
		over -= int64(e.n)
		ready = e.at + l.per
		return true
	})
	return ready
}

// logWait is WaitFor of a log. What is used stands at the newest entry, and each Per after that
// works off Requests; meanwhile entries leave by the Per of old.
func (l *Limit) logWait(st *State, old *Limit, now Instant, left int64) int64 {
	newest, total := st.Log.tail.at, int64(st.Log.total)
	begin := func(k int) int64 { return newest + int64(k)*l.per }
	leaves := func(k int, left int64) int64 {
		ready := max(int64(now), old.logUntil(st, total-left-int64(k)*l.most))
		if k > 0 {
			ready = max(ready, begin(k))
		}
		return ready
	}
	first := int(max(0, int64(now)-newest) / l.per)
	last := min(l.spans(total), old.per/l.per) // all entries are gone before the next begins
	k := first + sort.Search(int(last)+1, func(n int) bool { return leaves(first+n, left) < begin(first+n+1) })
	ready := leaves(k, left)
	if distance := l.spec.MinInterval.Microseconds(); distance > 0 { // from what then still counts
		ready = min(max(ready, begin(k)+distance), leaves(k, 0), begin(k+1))
	}
	return ready
}
