package stint

import (
	"math"
	"time"
)

// A state may count more as taken than its limit holds: after an overdraw or a forced take, and
// where it was carried over from larger numbers. Let
//
//	debt     be what is used beyond full use
//	Written  the time of the last write of such a state, 0 for all others
//
// A bucket works its debt off as ever. A window or log that was carried counts what exceeds
// Requests as taken one window later, and so on:
//
//	fixed_window    N counts from T on, and each window that follows works off Requests
//	sliding_log     the only entry is the whole, and each Per after it works off Requests
//	sliding_window  the newest entry is the whole; once its window is over, Requests of it stay
//	                there and the rest stands in the block one window later
//
// What such a state is charged beside joins the whole, until that has sunk to Requests.
//
// A clock that ran ahead leaves states from the future. Such a state counts, once the clock is
// right, as at most a full use from now, so nothing is denied for longer than its own period:
//
//	a debt          from the future if Written is, and then moved back by the difference
//	bucket          without Written more than full counts as full; reservations are moved back
//	fixed_window    from the future if its window has not begun; the same window then begins now
//	                and lasts a whole Per, whatever the limit's own windows: it floats. If the
//	                present window were taken for it, the next one would be given out twice
//	sliding_log     from the future if the newest entry is; all are moved back, the newest to now
//	sliding_window  from the future if the newest block is; what counted then is one take now
//	loan            was made now
//
// A time is from the future if it is more than skew later than now; in a plain window or log that
// is shorter than skew, if it is a whole Per later. What is less far ahead stays where it is, and is
// waited for: else a clock that runs back and forth would wear it off.

// skew is how much later than now something may have been written without being from the future:
// nodes reckon the time of a store to within some milliseconds, and tell it later what they let
// pass before. A state that moved back each time would forget its debt.
const skew = Instant(5 * time.Second / time.Microsecond)

// deferred reports whether what exceeds Requests counts in later windows.
func (l *Limit) deferred(st *State) bool {
	return st.Written != 0 && l.charge == 0 && (l.spec.Algorithm == FixedWindow || !st.Log.empty())
}

// early returns the time of which the state is, if no clock that is right at now wrote it; else 0.
func (l *Limit) early(st *State, now Instant) Instant {
	at, slack := st.Written, skew
	if at == 0 {
		at = l.dated(st)
		if l.charge == 0 {
			slack = min(skew, Instant(l.length()))
		}
	}
	if at > now+slack {
		return at
	}
	return 0
}

// dated returns a time before which the state was not written, as far as it says.
func (l *Limit) dated(st *State) Instant {
	newest, _ := st.Log.Newest()
	switch l.spec.Algorithm {
	case FixedWindow:
		if st.N == 0 {
			return 0
		}
		return Instant(st.T)
	case SlidingLog, SlidingWindow:
		return max(Instant(st.T), newest*Instant(l.tick))
	}
	return newest // of the reservations of a bucket
}

// length returns how long a window is; of a calendar as a mean of many.
func (l *Limit) length() int64 {
	const day, year = 86400e6, 365.2425 * 86400e6
	switch l.spec.Calendar {
	case Day:
		return day
	case Week:
		return 7 * day
	case Month:
		return year / 12
	case Year:
		return year
	}
	return l.per
}

// overfull reports whether more is used of a bucket than it holds.
func (l *Limit) overfull(st *State, now Instant) bool {
	return l.charge > 0 && st.T > l.clock(st.holdTime(now))+l.full
}

// timely says that a window or log is plain and nothing in it is later than now. Such a state is
// not stale. timely is quick enough for every take, and true for nearly all states.
func (l *Limit) timely(st *State, now Instant) bool {
	return l.charge == 0 && st.Written == 0 && st.lending == nil && st.T <= int64(now) && (st.Log == nil || st.Log.tail.at*l.tick <= int64(now))
}

// stale reports whether the state does not count at now as it stands.
func (l *Limit) stale(st *State, now Instant) bool {
	switch {
	case st.lending.ahead(now):
		return true
	case l.charge == 0:
		return st.Written != 0 || l.early(st, now) != 0
	case st.Written != 0 || st.Log != nil:
		return l.early(st, now) != 0 || st.Written == 0 && l.overfull(st, now)
	}
	return st.T > l.clock(now)+l.full
}

// present moves back a state that is from the future.
func (l *Limit) present(st *State, now Instant) {
	st.lending.present(now)
	if from := l.early(st, now); from != 0 {
		switch {
		case l.spec.Algorithm == FixedWindow:
			start, _ := l.windowOf(st, int64(from))
			st.T, st.N = l.float(start+int64(now-from)), l.windowUsed(st, int64(from))
		case l.block > 0 && st.Written == 0:
			l.gather(st, from, now)
		default:
			l.shift(st, from, now)
		}
		if st.Written != 0 {
			st.Written = now
		}
	}
	if st.Written == 0 && l.overfull(st, now) {
		st.T = l.clock(st.holdTime(now)) + l.full
	}
}

// gather makes all that counts at from of a sliding_window one take at now, of no more than there
// are: nobody knows how far into its newest block that was.
func (l *Limit) gather(st *State, from, now Instant) {
	used := int64(0)
	if l.expiry(st) > from {
		used = min(l.blocksUsed(st, from)+1, l.most, int64(st.Log.Units())) // one may have begun to leave
	}
	st.T = 0
	st.log().replace(int64(now)/l.block, uint64(used))
}

// correct is [StoreLimit.Correct].
func (l *Limit) correct(st *State, now Instant, cost uint64) {
	if (cost <= uint64(l.most) || l.spec.Overdraw) && l.most > 0 && l.stale(st, now) {
		l.present(st, now)
	}
}

// seen returns the state as it counts at now. It leaves st alone.
func (l *Limit) seen(st *State, now Instant) *State {
	if l.timely(st, now) || l.most == 0 || !l.stale(st, now) {
		return st
	}
	return l.turned(st, now)
}

// turned returns a copy of a stale state as it counts at now.
func (l *Limit) turned(st *State, now Instant) *State {
	c := new(State)
	st.CopyTo(c)
	l.present(c, now)
	if l.spec.Algorithm != FixedWindow { // whose N is read as it stands
		l.roll(c, now)
	}
	return c
}

// turn makes the state that of now, before it is charged.
func (l *Limit) turn(st *State, now Instant) {
	if l.stale(st, now) {
		l.present(st, now)
		l.writeOff(st, now)
		l.roll(st, now)
	}
}

// mark notes when a state was written that is above full use.
func (l *Limit) mark(st *State, now Instant) {
	switch {
	case l.deferred(st) && l.whole(st) > l.most:
		l.deferLess(st)
		st.Written = now
	case l.overfull(st, now):
		st.Written = now
	default:
		l.plain(st, now)
	}
}

// plain makes a state plain whose excess is gone.
func (l *Limit) plain(st *State, now Instant) {
	if st.Written != 0 {
		st.Written = 0
		l.present(st, now)
	}
}

// roll works off what the windows up to now do of a state that defers, and makes a plain one of
// it when that is all.
func (l *Limit) roll(st *State, now Instant) {
	if !l.deferred(st) {
		return
	}
	switch l.spec.Algorithm {
	case FixedWindow:
		start, _ := l.windowOf(st, int64(now))
		st.T, st.N = start, l.windowUsed(st, int64(now))
		if st.N == 0 {
			st.T = 0
		}
	case SlidingLog:
		at := st.Log.tail.at
		units := int64(st.Log.total)
		k := min(max(0, int64(now)-at)/l.per, l.spans(units))
		left := max(0, units-k*l.most)
		st.Log.replace(at+k*l.per, uint64(left))
		if left == 0 {
			st.N = 0
		}
	case SlidingWindow:
		l.rollBlocks(st, now)
	}
	if l.whole(st) <= l.most {
		l.plain(st, now)
	}
}

// rollBlocks is roll of a sliding_window, whose newest entry is the whole.
func (l *Limit) rollBlocks(st *State, now Instant) {
	whole, window := st.Log.tail, int64(l.spec.Blocks)
	i, _ := l.blocksAt(st, now)
	if k := min((i-whole.at)/window, l.spans(int64(whole.n))-1); k > 0 {
		st.Log.replace(whole.at+(k-1)*window, uint64(l.most)) // which is weighed in one block more
		st.Log.push(whole.at+k*window, whole.n-uint64(k*l.most))
	}
}

// whole returns the units of which Requests are worked off in each window.
func (l *Limit) whole(st *State) int64 {
	switch {
	case l.spec.Algorithm == FixedWindow:
		return st.N
	case st.Log.empty():
		return 0
	}
	return int64(st.Log.tail.n)
}

// deferMost returns how many units a state may hold that defers them from a time on, in microseconds:
// those that are worked off before the end of time.
func (l *Limit) deferMost(at int64) int64 {
	return min(units(math.MaxUint64), mulSat(l.most, (int64(endOfTime)-at)/l.length()))
}

// deferLess cuts what a state defers to as much.
func (l *Limit) deferLess(st *State) {
	switch {
	case l.spec.Algorithm == FixedWindow && l.carries(st):
		st.N = min(st.N, l.deferMost(st.T))
	case !l.deferred(st):
	case l.spec.Algorithm == SlidingLog:
		st.Log.KeepNewest(uint64(l.deferMost(st.Log.tail.at)))
	case l.spec.Algorithm == SlidingWindow:
		if over := int64(st.Log.tail.n) - l.deferMost(st.Log.tail.at*l.block); over > 0 {
			st.Log.remove(st.Log.tail.at, uint64(over), false)
		}
	}
}

// spans returns in how many windows so many units count.
func (l *Limit) spans(units int64) int64 { return (units + l.most - 1) / l.most }

// replace makes the log one entry, or none of no units.
func (g *Log) replace(at int64, n uint64) {
	*g = Log{middle: g.spare()}
	g.push(at, n)
}

// bound returns how many units a log may hold that counts denied tries: the larger requests
// met while it was not empty.
func (l *Limit) bound(st *State) uint64 { return uint64(max(l.most, st.N)) }

// more returns in how many windows beside the first the newest entry counts.
func (l *Limit) more(st *State) int64 {
	if !l.deferred(st) {
		return 0
	}
	return l.spans(int64(st.Log.tail.n)) - 1
}
