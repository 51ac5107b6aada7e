package lease_test

import (
	"testing"
	"testing/synctest"

	"stint"
	"stint/fleet/lease"
	"stint/internal/testkit"
	"stint/store/memory"
)

// What a store lent and denied while its clock was a day ahead denies no longer than a period.
func TestClockCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		testkit.CheckCorrectedClock(t, func(clock func() stint.Instant) *testkit.Fleet[*lease.Store] {
			return testkit.StartFleet(t, memory.New(memory.Options{Clock: clock}), 3, func(s stint.Store) *lease.Store { return lease.New(s, lease.Options{}) })
		}, take)
	})
}
