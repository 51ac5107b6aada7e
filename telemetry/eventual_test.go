package telemetry

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The numbers of several stores are added.
func TestEventual(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.Eventual(func() []EventualStats {
		return []EventualStats{
			{Keys: 2, Bytes: 500, Unanswered: 3, Undecodable: 2, Away: true, Reads: 4, Forwarded: 5, Messages: 6, Repeated: 7, Units: 8, Peeks: 9, Evicted: 10, Refused: 11, Exchange: time.Millisecond},
			{Keys: 1, Bytes: 100, Reads: 1, Messages: 1, Units: 2, Exchange: 2 * time.Millisecond},
		}
	})
	s := &service{metrics: m}
	s.expect(t, `
		stint_eventual_keys 3
		stint_eventual_bytes 600
		stint_eventual_unsure_keys 3
		stint_eventual_undecodable_keys 2
		stint_eventual_stores_away 1
		stint_eventual_exchange_seconds 0.002
		stint_eventual_reads_total 5
		stint_eventual_store_decisions_total 5
		stint_eventual_messages_total 7
		stint_eventual_repeated_total 7
		stint_eventual_told_units_total 10
		stint_eventual_looks_total 9
		stint_eventual_evicted_total 10
		stint_eventual_refused_total 11`)
}
