package audit

import (
	"fmt"
	"time"

	"stint"
	"stint/internal/text"
	"stint/internal/transaction"
	"stint/rule"
)

// waitAfter returns the longest time for which a used-up key is denied after the numbers of its
// limit changed. It returns false if the state is not carried over, or if the new limit denies
// everything or nothing.
func waitAfter(was, is *rule.Rule) (time.Duration, bool) {
	a, b := was.Stored, is.Stored
	if sameNumbers(a, b) || a.Algorithm() != b.Algorithm() || a.Algorithm() == stint.Unlimited || a.Capacity() == 0 || b.Capacity() == 0 || is.Shadow {
		return 0, false
	}
	return longestWait(a, b), true
}

// waitText returns the text for a time that waitAfter returned.
func waitText(wait time.Duration) string {
	if wait == 0 {
		return "a key that is used up passes at once"
	}
	return fmt.Sprintf("a key that is used up waits at most %s, unless stint reset frees it", atMost(wait))
}

// sameNumbers reports whether two limits are equal except for their handling of debts and
// reservations.
func sameNumbers(a, b *stint.Limit) bool {
	s, t := a.Spec(), b.Spec()
	s.CarryDebt, s.Reserve = t.CarryDebt, t.Reserve
	l, err := stint.NewLimit(s)
	return err == nil && l.ForStores().Same(b)
}

// atMost formats a duration rounded up: to milliseconds below a minute, otherwise to seconds.
func atMost(d time.Duration) string {
	unit := time.Millisecond
	if d >= time.Minute {
		unit = time.Second
	}
	d = (d + unit - 1) / unit * unit
	if d%time.Minute == 0 {
		return text.FormatDuration(d)
	}
	return d.String()
}

// longestWait returns the longest time until limit is allows one unit, if limit was is used up at
// the moment of the change.
func longestWait(was, is *stint.Limit) (longest time.Duration) {
	for _, at := range worstTimes(was.Spec(), is.Spec()) {
		r := usedUp(was, at)
		if d := r.Test(is, at, 1); !d.Allowed {
			longest = max(longest, d.RetryAfter)
		}
	}
	return longest
}

// usedUp returns the state of a key just after a take of all units that the limit allows.
func usedUp(l *stint.Limit, at stint.Instant) (r transaction.Record) {
	if s := l.Spec(); s.StartUsedUp { // the first take of such a key stores its initial, used-up state
		first := at.Add(-s.Per - s.Per/time.Duration(s.Blocks))
		first = first.Add(r.Test(l, first, 1).RetryAfter)
		r.Take(l, first, 1)
	}
	r.Take(l, at, uint64(r.Test(l, at, 0).Remaining))
	return r
}

// worstTimes returns the times at which a key waits longest: when the windows of both limits start
// together. Calendar days of two zones start at different times and last 23 to 25 hours, so for
// these it returns every day of a leap year.
func worstTimes(was, is stint.Spec) (all []stint.Instant) {
	begin := time.Date(2028, time.January, 1, 0, 0, 0, 0, time.UTC)
	if was.Calendar == stint.NoPeriod && is.Calendar == stint.NoPeriod {
		length := commonPeriod(was.Per.Microseconds(), is.Per.Microseconds())
		return []stint.Instant{stint.Instant((begin.UnixMicro() + length - 1) / length * length)}
	}
	for _, zone := range []*time.Location{time.UTC, was.Zone, is.Zone} {
		if zone == nil {
			continue
		}
		for day := range 366 {
			all = append(all, stint.At(time.Date(begin.Year(), begin.Month(), begin.Day()+day, 0, 0, 0, 0, zone)))
		}
	}
	return all
}

// commonPeriod returns the shortest time, in microseconds, after which windows of both lengths
// start together again. If that is longer than ten years, it returns a.
func commonPeriod(a, b int64) int64 {
	const years = 10 * 366 * 86400e6
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	if times := b / x; times <= years/a {
		return a * times
	}
	return a
}
