package rls

import (
	"net/netip"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"stint"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// A ban answers OVER_LIMIT without numbers, and Retry-After until its end. An override shows its
// numbers, in their unit.
func TestRecords(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(perMinute)})
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Hour)
	r := samples.Records(t, records.Ban{Subject: "user=1", Until: end}, records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24")},
		records.Override{Target: "user=2", Rule: "api/user", Requests: 7}, records.Override{Target: "user=3", Rule: "api/user", Per: time.Hour})
	d := &desk{now: zero}
	d.Handler = New(limiter.New(memory.New(memory.Options{Clock: func() stint.Instant { return d.now }}), table, limiter.Options{Records: r}), Options{Headers: []rule.Preset{rule.IETF}})
	for _, tt := range []struct {
		pairs   []string
		code    pb.RateLimitResponse_Code
		limit   uint32
		unit    pb.RateLimitResponse_RateLimit_Unit
		retries bool
	}{
		{[]string{"user", "1"}, pb.RateLimitResponse_OVER_LIMIT, 0, 0, true},
		{[]string{"user", "5", "remote_address", "192.0.2.7"}, pb.RateLimitResponse_OVER_LIMIT, 0, 0, false},
		{[]string{"user", "2"}, pb.RateLimitResponse_OK, 7, pb.RateLimitResponse_RateLimit_MINUTE, false},
		{[]string{"user", "3"}, pb.RateLimitResponse_OK, 1000000, pb.RateLimitResponse_RateLimit_HOUR, false},
	} {
		resp, failure := d.ask(t.Context(), t, request(tt.pairs...))
		if failure != nil {
			t.Fatal(failure)
		}
		status := resp.Statuses[0]
		if resp.OverallCode != tt.code || status.Code != tt.code || status.GetCurrentLimit().GetRequestsPerUnit() != tt.limit || status.GetCurrentLimit().GetUnit() != tt.unit {
			t.Errorf("%v: %v", tt.pairs, resp)
		}
		retries := false
		for _, h := range resp.ResponseHeadersToAdd {
			retries = retries || h.GetKey() == "Retry-After"
			if tt.code == pb.RateLimitResponse_OVER_LIMIT && h.GetKey() != "Retry-After" {
				t.Errorf("%v: field %v", tt.pairs, h)
			}
		}
		if retries != tt.retries {
			t.Errorf("%v: fields %v", tt.pairs, resp.ResponseHeadersToAdd)
		}
	}
}
