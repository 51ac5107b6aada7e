package gossip_test

import (
	"context"
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
	"stint/internal/testkit"
)

// clocked is a node that meets nobody, with a clock.
type clocked struct {
	node  *gossip.Node
	clock func() stint.Instant
}

func (s clocked) Decide(_ context.Context, call *stint.Call) error {
	return s.node.Decide(call, s.clock())
}

func TestStaleTime(t *testing.T) {
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	open := func(clock *testkit.StaleClock) stint.Store {
		return clocked{gossip.NewNode(gossip.Options{}), clock.Read}
	}
	testkit.StaleTime(t, open, stint.Take{Key: "a", Limit: bucket, Cost: 1})
	testkit.StaleTime(t, open, stint.Take{Key: "a", Limit: bucket, Cost: 1}, stint.Take{Key: "b", Limit: bucket, Cost: 1})
}
