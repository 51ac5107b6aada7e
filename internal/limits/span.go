package limits

import (
	"time"

	"stint"
)

// Span returns the length of the periods over which the use of a limit is measured, and how many units
// pass in one at most: that of the limit or, for buckets, the time in which they fill up if that is
// longer.
func Span(spec *stint.Spec) (length time.Duration, most float64) {
	length, most = spec.Per, float64(max(spec.Requests, 1))
	switch spec.Algorithm {
	case stint.TokenBucket, stint.LeakyBucket:
		if spec.Burst > spec.Requests && spec.Requests > 0 {
			length = min(time.Duration(float64(length)*float64(spec.Burst)/most), stint.MaxPer)
		}
		most = float64(spec.Burst) + most*(float64(length)/float64(spec.Per))
	}
	return length, most
}
