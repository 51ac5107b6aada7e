package telemetry

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stint/rule/rulefile"
)

// The numbers of several stores are added. They are read once for all metrics.
func TestLeases(t *testing.T) {
	reads, m := 0, New(prometheus.NewRegistry())
	m.Leases(func() []LeaseStats {
		reads++
		return []LeaseStats{
			{Keys: 2, Held: 70, Idle: 20, Asks: 5, Messages: 9, Repeated: 1, Lent: 1000, Returned: 50, LostUsedUp: 3, LostKept: 4, LostUnits: 60},
			{Keys: 1, Held: 30, Asks: 1, Lent: 1000, Returned: 150, LostUsedUp: 10, LostKept: 20, LostUnits: 1},
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
		stint_lease_lost_keys_total{after_loss="used_up"} 13
		stint_lease_lost_keys_total{after_loss="kept"} 24
		stint_lease_lost_units_total 61
		stint_lease_repeated_total 1`)
	if reads != 1 {
		t.Errorf("%d reads for one scrape", reads)
	}
}

// Each leased rule is one series, whichever store lent its units. The metrics show how many calls
// to the store each of its decisions costs.
func TestLeaseRules(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.LeaseRules(func() []LeaseRule {
		return []LeaseRule{
			{Domain: "api", Rule: "api/user", Held: 30, Idle: 10, Asks: 6, Reported: 4, Lent: 200, Returned: 20},
			{Domain: "api", Rule: "api/user", Held: 3, Asks: 1, Reported: 1, Lent: 200, Returned: 60},
			{Domain: "api", Rule: "api/user", Own: 55},
			{Domain: "api", Rule: "api/path"},
		}
	})
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 10, per: 1h}\n")})
	if err != nil {
		t.Fatal(err)
	}
	m.Reloaded(table, time.Now())
	m.current.Load().byName[ruleName{"api", "api/user"}].allowed.Add(90)
	m.current.Load().byName[ruleName{"api", "api/user"}].denied.Add(30)
	s := &service{metrics: m}
	s.expect(t, `
		stint_lease_rule_held_units{domain="api",rule="api/user"} 33
		stint_lease_rule_idle_units{domain="api",rule="api/user"} 10
		stint_lease_rule_stranded_ratio{domain="api",rule="api/user"} 0.2
		stint_lease_rule_lent_units_total{domain="api",rule="api/user"} 400
		stint_lease_rule_home_units_total{domain="api",rule="api/user"} 80
		stint_lease_rule_store_decisions_total{domain="api",rule="api/user"} 7
		stint_lease_rule_told_total{domain="api",rule="api/user"} 5
		stint_lease_rule_store_calls_ratio{domain="api",rule="api/user"} 0.1
		stint_lease_rule_own_total{domain="api",rule="api/user"} 55
		stint_lease_rule_held_units{domain="api",rule="api/path"} 0`)
}
