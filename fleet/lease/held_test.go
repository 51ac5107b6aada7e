package lease

import (
	"testing"
	"time"

	"stint"
)

// Units that were closed are neither spent nor given back, by callers that still see them.
func TestClosedUnits(t *testing.T) {
	now, d := Moment{Mono: 1, Wall: 1}, stint.Decision{}
	h := heldOf(10, now.Add(time.Second), &d, now)
	if !h.spend(4, now, &d) || h.close() != 6 {
		t.Error("want 6 of 10 units unspent")
	}
	h.giveBack(4)
	if h.units() != 0 || h.spend(1, now, &d) || h.take(1) != 0 || h.close() != 0 {
		t.Error("closed units were spent")
	}
}
