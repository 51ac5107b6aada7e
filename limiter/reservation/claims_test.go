package reservation

import (
	"fmt"
	"testing"
	"time"

	"stint"
)

// Claims are forgotten when their reservations can no longer be settled, and not all of them are looked at for each.
func TestClaimsForgotten(t *testing.T) {
	var c claims
	now := time.Now()
	for i := range 10 {
		c.keep(fmt.Sprint("old", i), claim{units: 1}, now)
	}
	end := now.Add(2*stint.MaxReservation + time.Second)
	c.keep("new", claim{units: 1}, end)
	if len(c.of) != 1 || c.take("new").units != 1 {
		t.Errorf("%d claims", len(c.of))
	}
	c.keep("old", claim{units: 1}, now) // as if it were from long ago
	c.keep("next", claim{units: 1}, end.Add(time.Millisecond))
	if len(c.of) != 2 {
		t.Error("all claims were looked at for one")
	}
	c.keep("last", claim{units: 1}, end.Add(sweepEvery))
	if len(c.of) != 2 {
		t.Errorf("%d claims, want those of next and last", len(c.of))
	}
}
