package quota_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/quota"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/store/memory"
)

func TestStaleTime(t *testing.T) {
	whole := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2000, Per: time.Second, Burst: 2000})
	terms := &stint.Terms{Domain: "api", Rule: "api/user", Limit: whole, Coordination: stint.Leased}
	terms.Own, terms.Rest = limits.Divide(whole, stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000}), 1)
	testkit.StaleTime(t, func(clock func() stint.Instant) stint.Store {
		still := memory.New(memory.Options{Clock: func() stint.Instant { return began }}) // the rest does not come back
		return quota.New(still, quota.Options{Clock: clock})
	}, stint.Take{Key: "a", Limit: whole, Cost: 1, Terms: terms})
}
