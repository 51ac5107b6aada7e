package audit

import (
	"fmt"
	"time"

	"stint"
	"stint/internal/text"
	"stint/migrate"
	"stint/rule"
)

// waitAfter returns how long a key that is used up is denied at most after the numbers of its
// limit changed. It returns false where the state is not carried over, or the new limit denies
// all or nobody.
func waitAfter(was, is *rule.Rule) (time.Duration, bool) {
	a, b := was.Stored, is.Stored
	if sameNumbers(a, b) || a.Algorithm() != b.Algorithm() || a.Algorithm() == stint.Unlimited || a.Capacity() == 0 || b.Capacity() == 0 || is.Shadow {
		return 0, false
	}
	return longestWait(a, b), true
}

// waitText describes what waitAfter returns.
func waitText(wait time.Duration) string {
	if wait == 0 {
		return "a key that is used up passes at once"
	}
	return fmt.Sprintf("a key that is used up waits at most %s, unless stint reset frees it", atMost(wait))
}

// sameNumbers reports whether two limits differ in nothing but how they treat debts and
// reservations.
func sameNumbers(a, b *stint.Limit) bool {
	s, t := a.Spec(), b.Spec()
	s.CarryDebt, s.Reserve = t.CarryDebt, t.Reserve
	l, err := stint.NewLimit(s)
	return err == nil && l.ForStores().Same(b)
}

// atMost returns the text of a duration, rounded up: to milliseconds below a minute, else to
// seconds.
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

// longestWait returns how long one unit of the limit is waits at most, if the limit was is used
// up at the moment of the change.
func longestWait(was, is *stint.Limit) (longest time.Duration) {
	for _, at := range worstTimes(was.Spec(), is.Spec()) {
		r := usedUp(was, at)
		if d := r.Test(is, at, 1); !d.Allowed {
			longest = max(longest, d.RetryAfter)
		}
	}
	return longest
}

// usedUp returns the state of a key that has just taken all that a limit allows.
func usedUp(l *stint.Limit, at stint.Instant) (r migrate.Record) {
	if s := l.Spec(); s.StartUsedUp { // the first take of such a key writes down what it begins with
		first := at.Add(-s.Per - s.Per/time.Duration(s.Blocks))
		first = first.Add(r.Test(l, first, 1).RetryAfter)
		r.Take(l, first, 1)
	}
	r.Take(l, at, uint64(r.Test(l, at, 0).Remaining))
	return r
}

// worstTimes returns the times at which a key waits longest: when the windows of both limits
// begin together. Days of a calendar begin apart and have 23 to 25 hours, so it returns
// all of a leap year for these.
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

// commonPeriod returns the least time after which windows of two lengths begin together again, in
// microseconds. Where that is longer than ten years, it returns the first length.
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
