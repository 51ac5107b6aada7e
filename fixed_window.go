package stint

import (
	"math/bits"
	"time"
)

// maxDebt is how many times its limit a fixed window can count up to.
const maxDebt = 64

// window returns the start and end, in microseconds, of the window that contains now, aligned to
// the epoch or the calendar.
func (l *Limit) window(now int64) (start, end int64) {
	if l.spec.Calendar != NoPeriod {
		return l.calendar(now)
	}
	start = now - now%l.per
	return start, start + l.per
}

// calendar returns the calendar window that contains now. A day may have 23 or 25 hours.
func (l *Limit) calendar(now int64) (start, end int64) {
	zone := l.spec.Zone
	if zone == nil {
		zone = time.UTC
	}
	t := time.UnixMicro(now).In(zone)
	y, m, d := t.Date()
	var years, months, days int
	switch l.spec.Calendar {
	case Year:
		m, d, years = 1, 1, 1
	case Month:
		if months = 1; d < l.anchorDay(y, m) {
			m--
		}
		d = l.anchorDay(y, m)
	case Week:
		d, days = d-(int(t.Weekday())+6)%7, 7
	default:
		days = 1
	}
	next := func(n int) int64 {
		if l.spec.Calendar == Month {
			d = l.anchorDay(y, m+time.Month(n))
		}
		return midnight(y+n*years, m+time.Month(n*months), d+n*days, zone)
	}
	start, end = midnight(y, m, d, zone), next(1)
	if now >= end { // the clock went back over midnight, and the old day seems to continue
		start, end = end, next(2)
	}
	return max(0, start), end // the first week of 1970 began before it
}

// anchorDay returns the day of a month on which the window begins: Anchor, or the last day of a
// shorter month.
func (l *Limit) anchorDay(y int, m time.Month) int {
	day := max(1, int(l.spec.Anchor))
	if day <= 28 {
		return day
	}
	return min(day, time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

// midnight returns the start of a day: 00:00, or the first time after it if clocks skip it. If
// clocks show it twice, it is the first time.
func midnight(y int, m time.Month, d int, zone *time.Location) int64 {
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	_, offset := t.Zone()
	shown := t.Unix() + int64(offset)
	wanted := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
	before, after := t.ZoneBounds()
	switch {
	case shown < wanted:
		t = after
	case shown > wanted:
		t = before
	case !before.IsZero():
		_, offset := before.Add(-time.Second).Zone()
		if first := time.Unix(wanted-int64(offset), 0); first.Before(before) {
			t = first
		}
	}
	return t.UnixMicro()
}

// windowOf returns the window that counts at now. If time ran backwards, it is still the window
// in the state.
func (l *Limit) windowOf(st *State, now int64) (start, end int64) {
	if l.spec.FromFirst {
		start, end = now, now+l.per
	} else {
		start, end = l.window(now)
	}
	switch {
	case st.N == 0 || st.T == start:
	case l.spec.FromFirst || l.floats(st.T):
		if now < l.windowExpiry(st) {
			size := l.length()
			start = st.T + max(0, now-st.T)/size*size
			return start, start + size
		}
	case st.T > start:
		return st.T, l.windowEnd(st.T)
	}
	return start, end
}

// floats reports whether a window that starts at start is not one of the limit's own: it was
// moved to another time, see State.Written. The next window begins a whole length later.
func (l *Limit) floats(start int64) bool {
	if l.spec.Calendar != NoPeriod {
		return start%1e6 != 0 // calendar windows start at a whole second
	}
	return start%l.per != 0
}

// float returns the start of a window that was moved to start.
func (l *Limit) float(start int64) int64 {
	if l.spec.Calendar != NoPeriod && start%1e6 == 0 {
		start++
	}
	return max(0, start)
}

// windowEnd returns the end of the window that starts at start.
func (l *Limit) windowEnd(start int64) int64 {
	if l.spec.Calendar != NoPeriod && !l.floats(start) {
		_, end := l.calendar(start)
		return end
	}
	return start + l.length()
}

func (l *Limit) windowUsed(st *State, now int64) int64 {
	start, _ := l.windowOf(st, now)
	switch {
	case st.N == 0:
		return 0
	case start == st.T:
		return st.N
	case l.carries(st): // each window since then pays off its part; calendar windows count with their mean length
		return max(0, st.N-l.most*min((now-l.windowEnd(st.T))/l.length()+1, st.N/l.most+1))
	}
	return 0
}

// carries reports whether units above the window's limit count in the windows after it.
func (l *Limit) carries(st *State) bool { return l.spec.CarryDebt || st.Written != 0 }

func (l *Limit) windowAdd(st *State, now, cost int64) {
	start, _ := l.windowOf(st, now)
	used := l.windowUsed(st, now)
	st.T, st.N = start, min(used+cost, l.windowMost(st, start, used))
}

// windowMost returns how many units a window that starts at start can count, if some are used.
// Units counted under larger numbers are never cut.
func (l *Limit) windowMost(st *State, start, used int64) int64 {
	if l.carries(st) {
		return l.deferMost(start)
	}
	return max(used, maxDebt*l.most)
}

// windowSub gives cost units back to a window that ends at end. If end is 0, it lowers what is
// used now. Units that are lent stay charged: only the node that has them can give them back.
func (l *Limit) windowSub(st *State, now, cost, end int64) {
	if start, _ := l.windowOf(st, now); start != st.T {
		if !l.carries(st) {
			return // its window has ended
		}
		st.T, st.N = start, l.windowUsed(st, now)
	}
	if end == 0 || end == l.windowEnd(st.T) {
		st.N = max(min(st.N, st.lending.lent()), st.N-cost)
	}
}

// windowExpiry returns the time at which nothing of a window counts any more.
func (l *Limit) windowExpiry(st *State) int64 {
	end := l.windowEnd(st.T)
	if l.carries(st) {
		end += (l.spans(st.N) - 1) * l.length()
	}
	return end
}

func (l *Limit) windowReset(st *State, now int64) time.Duration {
	if l.spec.FromFirst && l.windowUsed(st, now) == 0 {
		return 0
	}
	_, end := l.windowOf(st, now)
	if l.deferred(st) && l.windowUsed(st, now) > 0 {
		end = l.windowExpiry(st)
	}
	return span(end - now)
}

// windowRetry returns the time until cost units fit: in the next window, or in one with less
// debt.
func (l *Limit) windowRetry(st *State, now, cost int64) int64 {
	if l.carries(st) {
		return l.windowEnd(st.T) + (l.spans(st.N+cost-l.most)-1)*l.length() - now
	}
	_, end := l.windowOf(st, now)
	return end - now
}

// The packed form of an epoch-aligned window is its number in the high bits and its count in the
// low bits.

// countBits returns how many of the 52 bits of a packed window hold the count.
func (l *Limit) countBits() int {
	return 52 - bits.Len64(uint64(int64(MaxInstant)/l.per))
}

// wholeWord is the largest word of a state that fits into one.
const wholeWord = 1<<52 - 1

// pack implements [StoreLimit.Pack].
func (l *Limit) pack(st *State) uint64 {
	if st.Written != 0 {
		return wholeWord + 1
	}
	if l.spec.Algorithm == FixedWindow {
		if st.N == 0 {
			return 0
		}
		number := st.T / l.per
		if number*l.per != st.T { // the window floats
			return wholeWord + 1
		}
		return uint64(number)<<l.countBits() | uint64(st.N)
	}
	return uint64(st.T)
}

// unpack implements [StoreLimit.Unpack].
func (l *Limit) unpack(word uint64) State {
	if l.spec.Algorithm == FixedWindow {
		if word == 0 {
			return State{}
		}
		n := l.countBits()
		return State{T: int64(word>>n) * l.per, N: int64(word & (1<<n - 1))}
	}
	return State{T: int64(word)}
}
