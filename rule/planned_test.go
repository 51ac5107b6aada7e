package rule_test

import (
	"testing"
	"time"
)

// A plan's period is the longest of its fixed windows that rules ask for, and ends at the right local
// moment, also over a change of clocks and with the day of the subscription.
func TestPeriodEnd(t *testing.T) {
	table := parse(t, `
domain: api
plans:
  free: {api: {requests: 100, per: 1d}, other: {requests: 1, unit: year}}
  pro: {api: [{requests: 1000, unit: day, time_zone: Europe/Berlin}, {requests: 9, unit: month, time_zone: Europe/Berlin, anchor: subscription}, {requests: 5, per: 90d, align: first, name: open}]}
  bare: {api: {requests: 5, per: 90d, align: first}}
  rush: {api: {unlimited: true}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: api}}]
`)
	now := time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		plan string
		day  int // of the subscription; 0: unknown
		want string
	}{
		{"", 0, "2026-03-21T00:00:00Z"},
		{"free", 5, "2026-03-21T00:00:00Z"},
		{"pro", 0, "2026-03-31T22:00:00Z"}, // summer time
		{"pro", 15, "2026-04-14T22:00:00Z"},
		{"pro", 25, "2026-03-24T23:00:00Z"}, // winter time
		{"bare", 0, ""},
		{"rush", 0, ""},
		{"gone", 0, ""},
	} {
		var subscribed time.Time
		if tt.day > 0 {
			subscribed = time.Date(2025, 1, tt.day, 12, 0, 0, 0, time.UTC)
		}
		got := ""
		if end, ok := table.PeriodEnd(tt.plan, subscribed, now); ok {
			got = end.UTC().Format(time.RFC3339)
		}
		if got != tt.want {
			t.Errorf("plan %q, day %d: ends at %q, want %q", tt.plan, tt.day, got, tt.want)
		}
	}
}
