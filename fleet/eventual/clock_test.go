package eventual_test

import (
	"testing"
	"testing/synctest"

	"stint"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/memory"
)

// What nodes decided by a store whose clock was a day ahead denies no longer than a period.
func TestClockCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		testkit.CheckCorrectedClock(t, func(clock func() stint.Instant) *testkit.Fleet[*eventual.Store] {
			return startOn(t, memory.New(memory.Options{Clock: clock}), 3, eventual.Options{})
		}, take)
	})
}
