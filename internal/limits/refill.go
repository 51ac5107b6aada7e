package limits

import (
	"time"

	"stint"
)

// RefillTime returns how long a used up limit takes to be whole again: a token_bucket to refill, any
// other limit its whole period, which for a calendar is the longest such window.
func RefillTime(l *stint.Limit) time.Duration {
	s := l.Spec()
	if s.Algorithm != stint.TokenBucket || s.Requests == 0 {
		return longest(&s)
	}
	// NewLimit allows no bucket that takes longer than 50 years.
	return time.Duration(float64(s.Burst) * float64(s.Per) / float64(s.Requests))
}

// SharedBy returns how many nodes share a leased bucket that is used up, at most, if takes have a cost, and for how
// long each of them then waits for its part of what is refilled, see [stint.LeasePause]. They share it only if a pause
// refills enough for as many takes as a message must save to be worth it: otherwise nodes is 0, as for other limits.
func SharedBy(l *stint.Limit, cost uint32) (nodes int, pause time.Duration) {
	s := l.Spec()
	if s.Algorithm != stint.TokenBucket {
		return 0, 0
	}
	pause = min(stint.LeasePause, (RefillTime(l) / stint.LeasePart).Truncate(time.Microsecond)) // as stores count
	nodes = int(pause.Seconds() * float64(s.Requests) / s.Per.Seconds() / stint.LeaseShare)
	if int64(nodes)*stint.LeaseShare < stint.LeaseLeast*int64(cost) {
		nodes = 0
	}
	return nodes, pause
}
