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
	testkit.StaleTime(t, func(clock *testkit.StaleClock) stint.Store {
		still := memory.New(memory.Options{Clock: func() stint.Instant { return began }}) // the rest does not come back
		return quota.New(still, quota.Options{Clock: clock.Read})
	}, stint.Take{Key: "a", Limit: whole, Cost: 1, Handling: &stint.Handling{Terms: terms}})
}

// A part that is forgotten as it is full again was not yet full when a caller read the clock who comes
// later.
func TestStaleSweep(t *testing.T) {
	whole := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2000, Per: time.Second, Burst: 2000})
	terms := &stint.Terms{Domain: "api", Rule: "api/user", Limit: whole, Coordination: stint.Leased}
	terms.Own, terms.Rest = limits.Divide(whole, stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000}), 1)
	node := quota.NewNode(quota.Options{})
	passes := func(after time.Duration, cost uint32) bool {
		call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: whole, Cost: cost, Handling: &stint.Handling{Terms: terms}}}}
		return node.Begin(&call, began.Add(after)) == nil
	}
	passes(0, 1) // it is known now, and fills
	if !passes(2*time.Second, 1000) {
		t.Fatal("the part has not filled")
	}
	node.Sweep(began.Add(3 * time.Second))
	passes(3*time.Second-13*time.Millisecond, 1000)
	passes(3*time.Second, 1000)
	if passes(3*time.Second, 1) {
		t.Error("something came back")
	}
}
