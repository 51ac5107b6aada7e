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
