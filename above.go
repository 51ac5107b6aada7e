package stint

import (
	"math"
	"time"
)

// A state may count more units as taken than its limit holds: after an overdraw or a forced take,
// or after it was carried over from larger numbers. Let
//
//	debt     be the units beyond full use
//	Written  the time of the last write of such a state, 0 for all others
//
// A bucket pays its debt off by its rate. A window or log that was carried over counts the units
// above Requests as taken one window later, and so on:
//
//	fixed_window    N counts from T on, and each following window pays off Requests
//	sliding_log     the only entry is the whole, and each Per after it pays off Requests
//	sliding_window  the newest entry is the whole; when its window is over, Requests of it stay
//	                there and the rest moves to the block one window later
//
// Further charges of such a state are added to the whole, until the whole has sunk to Requests.
//
// A clock that ran ahead leaves states from the future. After the clock is corrected, such a
// state counts as at most a full use from now, so that nothing is denied for longer than its own
// period:
//
//	a debt          is from the future if Written is; it is moved back by the difference
//	bucket          without Written more than full counts as full; reservations are moved back
//	fixed_window    is from the future if its window has not begun; the same window then begins
//	                now and lasts a whole Per, whatever the limit's own windows are: it floats.
//	                If it were moved to the current window, the next one would be given out
//	                twice
//	sliding_log     is from the future if the newest entry is; all entries are moved back, the
//	                newest to now
//	sliding_window  is from the future if the newest block is; all that counted then becomes one
//	                take now
//	penalty         is from the future if Written is; it is moved back by the difference
//	loan            is moved to now
//
// A time is from the future if it is more than skew later than now, or in a plain window or log
// shorter than skew, a whole Per later. A state that is less far ahead stays unchanged: a clock
// that runs back and forth would otherwise wear it off.

// skew is how much later than now a state may have been written without being from the future.
// Nodes know the time of a store to within some milliseconds, and report later what they admitted
// before. If a state moved back each time, it would lose its debt.
const skew = Instant(5 * time.Second / time.Microsecond)

// deferred reports whether units above Requests count in later windows.
func (l *Limit) deferred(st *State) bool {
	return st.Written != 0 && l.charge == 0 && (l.spec.Algorithm == FixedWindow || !st.Log.empty())
}

// early returns the time of a state that no correct clock wrote, 0 for all others.
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

// dated returns a time before which the state was not written.
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

// length returns the length of a window in microseconds. For a calendar it is the mean of many
// windows.
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
	return l.charge > 0 && st.T > l.clock(st.reservedTime(now))+l.full
}

// timely reports whether a window or log is plain and has nothing later than now. Such a state is
// not stale. It is fast enough to be called for every take, and true for nearly all states.
func (l *Limit) timely(st *State, now Instant) bool {
	return l.charge == 0 && st.Written == 0 && st.lending == nil && st.T <= int64(now) && (st.Log == nil || !l.foreign(st) && st.Log.tail.at*l.tick <= int64(now))
}

// foreign reports whether the log has an entry after the end of time, in the blocks of the limit. A
// limit of another algorithm wrote it, or it is corrupt. Such a state counts as an untouched key.
func (l *Limit) foreign(st *State) bool {
	return st.Log != nil && st.Log.tail.at > int64(endOfTime)/max(1, l.tick)
}

// stale reports whether the state must be changed before it counts at now.
func (l *Limit) stale(st *State, now Instant) bool {
	switch {
	case st.lending.ahead(now), l.foreign(st):
		return true
	case l.charge == 0:
		return st.Written != 0 || l.early(st, now) != 0
	case st.Written != 0 || st.Log != nil:
		return l.early(st, now) != 0 || st.Written == 0 && l.overfull(st, now)
	}
	return st.T > l.clock(now)+l.full
}

// present moves back a state from the future, and empties a foreign one.
func (l *Limit) present(st *State, now Instant) {
	st.lending.present(now)
	if l.foreign(st) {
		*st = State{lending: st.lending}
	}
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
		st.T = l.clock(st.reservedTime(now)) + l.full
	}
}

// gather replaces all that counts at the time from in a sliding_window by one take at now. The
// number of units is an upper bound, because the time inside the newest block is unknown.
func (l *Limit) gather(st *State, from, now Instant) {
	used := int64(0)
	if l.expiry(st) > from {
		used = min(l.blocksUsed(st, from)+1, l.most, int64(st.Log.Units())) // one unit may have begun to leave the window
	}
	st.T = 0
	st.log().replace(int64(now)/l.block, uint64(used))
}

// correct implements [StoreLimit.Correct].
func (l *Limit) correct(st *State, now Instant, cost uint64) {
	if (cost <= uint64(l.most) || l.spec.Overdraw) && l.most > 0 && l.stale(st, now) {
		l.present(st, now)
	}
}

// seen returns the state as it counts at now. It does not change st.
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
	if l.spec.Algorithm != FixedWindow { // N of a fixed window is read as it is
		l.roll(c, now)
	}
	return c
}

// turn updates the state to now before it is charged.
func (l *Limit) turn(st *State, now Instant) {
	if l.stale(st, now) {
		l.present(st, now)
		l.writeOff(st, now)
		l.roll(st, now)
	}
}

// mark sets the time of the write of a state that is above full use.
func (l *Limit) mark(st *State, now Instant) {
	switch {
	case l.spec.Algorithm == Penalty: // always has the time of its last write
	case l.deferred(st) && l.whole(st) > l.most:
		l.deferLess(st)
		st.Written = now
	case l.overfull(st, now):
		st.Written = now
	default:
		l.plain(st, now)
	}
}

// plain makes a state plain when it is no longer above full use.
func (l *Limit) plain(st *State, now Instant) {
	if st.Written != 0 {
		st.Written = 0
		l.present(st, now)
	}
}

// roll pays off what the windows up to now pay off of a state that defers units, and makes it
// plain when nothing is left.
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

// rollBlocks is roll for a sliding_window, whose newest entry is the whole.
func (l *Limit) rollBlocks(st *State, now Instant) {
	whole, window := st.Log.tail, int64(l.spec.Blocks)
	i, _ := l.blocksAt(st, now)
	if k := min((i-whole.at)/window, l.spans(int64(whole.n))-1); k > 0 {
		st.Log.replace(whole.at+(k-1)*window, uint64(l.most)) // it counts in one block more, by its weight
		st.Log.push(whole.at+k*window, whole.n-uint64(k*l.most))
	}
}

// whole returns the units of which each window pays off Requests.
func (l *Limit) whole(st *State) int64 {
	switch {
	case l.spec.Algorithm == FixedWindow:
		return st.N
	case st.Log.empty():
		return 0
	}
	return int64(st.Log.tail.n)
}

// deferMost returns how many units a state may defer from a time on, in microseconds: those that
// can be paid off before the end of time.
func (l *Limit) deferMost(at int64) int64 {
	return min(units(math.MaxUint64), mulSat(l.most, (int64(endOfTime)-at)/l.length()))
}

// deferLess reduces the deferred units of a state to deferMost.
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

// spans returns over how many windows a number of units is spread. It stops at as many as there are
// until the end of time, for a state that larger numbers wrote or that is corrupt.
func (l *Limit) spans(units int64) int64 {
	return min((units+l.most-1)/l.most, int64(endOfTime)/l.length())
}

// replace makes the log a single entry, or empty for 0 units.
func (g *Log) replace(at int64, n uint64) {
	*g = Log{middle: g.spare()}
	g.push(at, n)
}

// bound returns how many units a log that counts denied tries may hold: the largest number of
// requests that it was used with since it was empty.
func (l *Limit) bound(st *State) uint64 { return uint64(max(l.most, st.N)) }

// more returns in how many windows after the first the newest entry counts.
func (l *Limit) more(st *State) int64 {
	if !l.deferred(st) {
		return 0
	}
	return l.spans(int64(st.Log.tail.n)) - 1
}
