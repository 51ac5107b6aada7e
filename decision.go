package stint

import (
	"math"
	"time"
)

const (
	// Never is the RetryAfter of a take that can never pass, because it asks for
	// more than the limit can ever hold.
	Never time.Duration = math.MaxInt64

	// NoLimit is the Limit and Remaining of a decision by an unlimited limit.
	NoLimit int64 = math.MaxInt64
)

// Decision is the answer to one take. The zero Decision is a refusal that can be
// retried at once; a store always fills in more.
type Decision struct {
	// Allowed reports whether the take may pass. A peek is always allowed.
	Allowed bool

	// Degraded says that the limit could not be asked and a failure policy answered.
	Degraded bool

	// Over says that the take passed above the plain limit, in a part that a soft
	// or elastic policy adds.
	Over bool

	// Own says that it was charged to what the process has for itself of a limit that is
	// divided, see Terms. It is given back there.
	Own bool

	// Limit is the most units that can be taken at once from an untouched key:
	// burst (token_bucket), burst + 1 (leaky_bucket), else requests. NoLimit for an
	// unlimited one.
	Limit int64

	// Remaining is how many whole units could be taken now, after this decision;
	// 0 <= Remaining <= Limit. The least distance of a sliding_log is left out of it.
	Remaining int64

	// Debt is how many units more than the limit count as taken, of a fixed_window that
	// carries them (see [Spec.CarryDebt]); 0 for all others.
	Debt int64

	// RetryAfter is set on a refusal: after exactly this long, with nobody else
	// taking, the same take passes. It is never rounded down. Never if the take can
	// never pass.
	RetryAfter time.Duration

	// ResetAfter is how long until the key is as if never touched. A fixed window
	// aligned to the epoch always reports its own end.
	ResetAfter time.Duration

	// Delay is how long to hold an allowed request before letting it go
	// (leaky_bucket only).
	Delay time.Duration

	// At is when the decision was made, by the clock that made it. Giving a take
	// back needs it.
	At Instant
}

// Combine returns the decision of a whole call and the index of the result that
// speaks for it; -1 and an allowing decision without numbers for no results.
//
// Where any result denies, the call is denied and reports the longest RetryAfter
// (Never is the longest; the first wins ties). Otherwise it reports the smallest
// Remaining (the first wins ties). Its Delay is the largest of all.
func Combine(results []Decision) (Decision, int) {
	if len(results) == 0 {
		return Decision{Allowed: true, Limit: NoLimit, Remaining: NoLimit}, -1
	}
	chosen := 0
	for i := 1; i < len(results); i++ {
		if results[i].speaksBefore(&results[chosen]) {
			chosen = i
		}
	}
	d := results[chosen]
	for i := range results {
		d.Degraded = d.Degraded || results[i].Degraded
		d.Over = d.Over || results[i].Over
		if d.Allowed {
			d.Delay = max(d.Delay, results[i].Delay)
		}
	}
	return d, chosen
}

// speaksBefore reports whether d rather than other is the result to report.
func (d *Decision) speaksBefore(other *Decision) bool {
	switch {
	case d.Allowed != other.Allowed:
		return !d.Allowed
	case !d.Allowed:
		return d.RetryAfter > other.RetryAfter
	default:
		return d.Remaining < other.Remaining
	}
}
