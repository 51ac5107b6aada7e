package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRefusals(t *testing.T) {
	m := New(prometheus.NewRegistry())
	stats := RefusalStats{Answered: 7, Keys: 2, Bytes: 900, Dropped: 3, Lost: 1}
	m.Refusals(func() RefusalStats { return stats })
	s := &service{metrics: m}
	s.expect(t, `
		stint_refusals_answered_total 7
		stint_refusals_keys 2
		stint_refusals_bytes 900
		stint_refusals_dropped_total 3
		stint_refusals_channel_lost_total 1
		stint_refusals_channel_up 0
	`)
	stats.Heard = true
	s.expect(t, "stint_refusals_channel_up 1")
}
