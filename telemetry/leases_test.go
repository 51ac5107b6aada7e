package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What several stores lent is shown together.
func TestLeases(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.Leases(func() []LeaseStats {
		return []LeaseStats{
			{Keys: 2, Held: 70, Idle: 20, Asks: 5, Messages: 9, Repeated: 1, Lent: 1000, Home: 50},
			{Keys: 1, Held: 30, Asks: 1, Lent: 1000, Home: 150},
		}
	})
	s := &service{metrics: m}
	s.expect(t, `
		stint_lease_keys 3
		stint_lease_held_units 100
		stint_lease_idle_units 20
		stint_lease_stranded_ratio 0.1
		stint_lease_lent_units_total 2000
		stint_lease_home_units_total 200
		stint_lease_store_decisions_total 6
		stint_lease_messages_total 9
		stint_lease_repeated_total 1`)
}
