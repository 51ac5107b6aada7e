package limits

import (
	"fmt"

	"stint"
	"stint/internal/text"
)

// Format returns a limit in the words of a rule file.
func Format(l *stint.Limit) string {
	s := l.Spec()
	if s.Algorithm == stint.Unlimited {
		return "unlimited"
	}
	if s.Algorithm == stint.Penalty {
		return formatPenalty(&s)
	}
	written := fmt.Sprintf("%s %d per ", s.Algorithm, s.Requests)
	if s.Calendar != stint.NoPeriod {
		written += fmt.Sprintf("calendar %s in %s", s.Calendar, s.Zone)
		if s.Anchor > 0 {
			written += fmt.Sprintf(" from day %d", s.Anchor)
		}
	} else {
		written += text.FormatDuration(s.Per)
	}
	add := func(on bool, format string, args ...any) {
		if on {
			written += fmt.Sprintf(" "+format, args...)
		}
	}
	add(s.Algorithm == stint.TokenBucket || s.Algorithm == stint.LeakyBucket, "burst %d", s.Burst)
	add(s.Step, "in steps")
	add(s.MaxWait > 0, "wait at most %s", text.FormatDuration(s.MaxWait))
	add(s.FromFirst, "from the first")
	add(s.CarryDebt, "carrying its debt")
	add(s.Algorithm == stint.SlidingWindow, "in %d blocks", s.Blocks)
	add(s.StartUsedUp, "starting used up")
	add(s.Reserve, "with reservations")
	add(s.MinInterval > 0, "at least %s apart", text.FormatDuration(s.MinInterval))
	add(s.CountDenied, "counting denied")
	add(s.Overdraw, "with overdraw")
	return written
}

// Equal reports whether two limits are the same in different notation: buckets that refill continuously, with the
// same time per request and the same burst.
func Equal(a, b *stint.Limit) bool {
	s, t := a.Spec(), b.Spec()
	if s.Algorithm != stint.TokenBucket && s.Algorithm != stint.LeakyBucket || s.Step || a.Rate() != b.Rate() {
		return false
	}
	s.Requests, s.Per = t.Requests, t.Per
	return s == t
}
