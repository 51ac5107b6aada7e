package stint_test

import (
	"reflect"
	"testing"
	"time"

	"stint"
)

// A peek keeps the units of a sliding algorithm that no longer count, as it changes nothing: under
// other numbers a later take may still need them.
func TestPeekForgetsNothing(t *testing.T) {
	for _, algorithm := range []stint.Algorithm{stint.SlidingLog, stint.SlidingWindow} {
		limit := stint.MustLimit(stint.Spec{Algorithm: algorithm, Requests: 10, Per: 7 * time.Second})
		var peeked, left stint.State
		start := stint.At(time.Unix(1_800_000_000, 0))
		limit.Take(&peeked, start, 5)
		limit.Take(&left, start, 5)
		limit.Take(&peeked, start.Add(15*time.Second), 0)
		if !reflect.DeepEqual(peeked, left) {
			t.Errorf("%v: %+v after a peek, %+v without", algorithm, peeked, left)
		}
	}
}
