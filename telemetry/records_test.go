package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stint"
	"stint/limiter"
	"stint/rule"
)

// Bans are counted by what is banned, and not as lists; without records there are no such metrics.
func TestRecords(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.Clients(func() ClientsStats { return ClientsStats{Failed: 7, Misfits: 2} })
	for _, kind := range []limiter.BanKind{limiter.BannedSubject, limiter.BannedAddress, limiter.BannedAddress} {
		m.Decided(&limiter.Verdict{Ban: kind, Listed: &rule.Listed{Name: "ban"}, Decision: stint.Decision{RetryAfter: stint.Never}}, -1, nil)
	}
	(&service{metrics: m}).expect(t, `
		stint_banned_total{by="subject"} 1
		stint_banned_total{by="address"} 2
		stint_requests_total{verdict="denied"} 3
		stint_record_lookup_failures_total 7
		stint_override_misfits_total 2
	`)
}
