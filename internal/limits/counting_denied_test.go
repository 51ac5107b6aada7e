package limits

import (
	"math"
	"testing"
	"time"

	"stint"
)

// A tally charges takes that it denies, and has one unit remaining when the limit has none.
func TestCountingDenied(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour})
	of, state := CountingDenied(limit), stint.State{}
	for i, want := range []int64{2, 1, 0, 0} {
		if d := of.Take(&state, 1, 1); d.Remaining != want {
			t.Errorf("take %d leaves %d, want %d", i, d.Remaining, want)
		}
	}
	if used := of.ForStores().Used(&state, 1); used != 4 {
		t.Errorf("%d are used", used)
	}
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Hour},
		{Requests: 2, Per: time.Hour, FromFirst: true},
		{Requests: 2, Calendar: stint.Day},
		{Requests: math.MaxUint32, Per: time.Hour},
		{Algorithm: stint.Unlimited},
	} {
		if of := CountingDenied(stint.MustLimit(spec)); of != nil {
			t.Errorf("%+v has a tally, %+v", spec, of.Spec())
		}
	}
}
