package rls

import (
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// A request that a penalty denies is OVER_LIMIT, with the time until the end of the step.
func TestPenalty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deskOf(t, Options{}, `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 1, per: 1m, align: first, penalty: {after: 1, ladder: [5m]}}
`)
		for i, want := range []pb.RateLimitResponse_Code{pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT, pb.RateLimitResponse_OVER_LIMIT} {
			resp, failure := d.ask(t.Context(), t, request("user", "ann"))
			if failure != nil {
				t.Fatal(failure)
			}
			if resp.OverallCode != want || resp.Statuses[0].Code != want || resp.Statuses[0].LimitRemaining != 0 {
				t.Errorf("try %d: %v", i, resp)
			}
			if left := resp.Statuses[0].DurationUntilReset.AsDuration(); i == 2 && left != 5*time.Minute {
				t.Errorf("the step is told to end after %v", left)
			}
		}
	})
}
