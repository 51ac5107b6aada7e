package stint

import (
	"math"
	"time"
)

const (
	// Never is the RetryAfter of a take that can never pass, because it asks for more than the
	// limit can ever hold.
	Never time.Duration = math.MaxInt64

	// NoLimit is the Limit and Remaining of a decision by an unlimited limit.
	NoLimit int64 = math.MaxInt64
)

// Decision is the answer to one take. The zero Decision is a denial that can be retried at once;
// a store always fills in more.
type Decision struct {
	// Allowed reports whether the take may pass. A peek is always allowed.
	Allowed bool

	// Degraded reports that the limit could not be read and a failure policy decided.
	Degraded bool

	// Over reports that the take passed above the plain limit, in the part that a soft or elastic
	// policy adds.
	Over bool

	// Own reports that this process decided alone. An allowed take was charged to its share of a
	// divided limit, see Terms, and a refund goes back there. A denied one comes from its share, or
	// from its cache of denials, so that the store was not asked.
	Own bool

	// Charged is how many units an AskAtMost was charged; 0 if it was denied, and for all other
	// operations.
	Charged uint32

	// Spent is how many units were charged to each grant, in a form that only stores read. A refund
	// needs it. It is "" for takes without grants.
	Spent string

	// Limit is the largest number of units that can be taken at once from an untouched key: burst
	// (token_bucket), burst + 1 (leaky_bucket), else requests. Units of grants and of a rollover are
	// added. It is NoLimit for an unlimited one.
	Limit int64

	// Remaining is how many whole units could be taken now, after this decision; 0 <= Remaining
	// <= Limit. It ignores the MinInterval of a sliding_log.
	Remaining int64

	// Debt is how many units above the limit count as taken in a fixed_window that carries its
	// debt (see [Spec.CarryDebt]). For a penalty it is the level: how many steps of the ladder count.
	// It is 0 for all others.
	Debt int64

	// RetryAfter is set on a denial: after exactly this long, if nobody else takes, the same take
	// passes. It is never rounded down. It is Never if the take can never pass.
	RetryAfter time.Duration

	// ResetAfter is the time until the full limit is available again. For a fixed window aligned
	// to the epoch it is the time until the end of the window.
	ResetAfter time.Duration

	// Delay is how long to hold an allowed request before it continues (leaky_bucket only).
	Delay time.Duration

	// At is the time of the decision, by the clock that made it. A refund needs it.
	At Instant
}

// Combine returns the decision of a whole call, and the index of the result that it is taken
// from. Without results it returns -1 and an allowing decision without numbers.
//
// If any result denies, the call is denied with the longest RetryAfter (Never is the longest; the
// first wins ties). Otherwise it has the smallest Remaining (the first wins ties). Its Delay is
// the largest of all, and its Charged the smallest that is not 0.
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
			if n := results[i].Charged; n > 0 && (n < d.Charged || d.Charged == 0) {
				d.Charged = n
			}
		}
	}
	return d, chosen
}

// speaksBefore reports whether the combined decision uses d rather than other.
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

// AtMost returns how many units to take if at most most are wanted. The decision must be that of a
// test for 1 unit: if it is allowed, AtMost returns as many as remain; if it is denied, 1.
func (d *Decision) AtMost(most uint64) uint64 {
	if !d.Allowed {
		return min(most, 1)
	}
	return min(most, uint64(d.Remaining))
}

// Charge sets Charged to the units of the take, if it is allowed.
func (d *Decision) Charge(units uint64) {
	if d.Allowed {
		d.Charged = uint32(min(units, MaxCost))
	}
}
