package telemetry

import "github.com/prometheus/client_golang/prometheus"

// LeaseStats are the numbers of the units that one store on the network has lent to this process,
// which uses them to decide busy keys of leased rules itself.
type LeaseStats struct {
	Keys     int64  // busy keys
	Held     int64  // unspent units lent to this process
	Idle     int64  // part of Held for keys without current requests
	Asks     uint64 // calls of leased rules that the store decided
	Messages uint64 // messages to the store with reports of units
	Repeated uint64 // keys sent again because an earlier message had no answer
	Lent     uint64 // units lent in total
	Returned uint64 // units of these that were returned unspent

	// Of all losses of counts: keys of this process that count as used up since, keys that keep what the
	// store still has, and units of all these that the process had.
	LostUsedUp, LostKept, LostUnits uint64
}

// Leases sets the function that returns the numbers of leases, one element for each store. It is
// called at each scrape. Call Leases at most once.
func (m *Metrics) Leases(read func() []LeaseStats) {
	m.reg.MustRegister(numbers[LeaseStats]{leaseNumbers, func(tell func(*LeaseStats, ...string)) {
		var s LeaseStats
		for _, one := range read() {
			s.Keys += one.Keys
			s.Held += one.Held
			s.Idle += one.Idle
			s.Asks += one.Asks
			s.Messages += one.Messages
			s.Repeated += one.Repeated
			s.Lent += one.Lent
			s.Returned += one.Returned
			s.LostUsedUp += one.LostUsedUp
			s.LostKept += one.LostKept
			s.LostUnits += one.LostUnits
		}
		tell(&s)
	}})
}

// lostKeys returns the metric of keys that losses of counts touched, with a value of after_loss.
func lostKeys(afterLoss string, of func(*LeaseStats) uint64) number[LeaseStats] {
	const help = "Busy keys of leased rules that losses of counts touched, by after_loss."
	desc := prometheus.NewDesc("stint_lease_lost_keys_total", help, nil, prometheus.Labels{"after_loss": afterLoss})
	return number[LeaseStats]{desc, prometheus.CounterValue, func(s *LeaseStats) float64 { return float64(of(s)) }}
}

// leaseNumbers are the metrics of leases.
var leaseNumbers = []number[LeaseStats]{
	gauge("lease_keys", "Busy keys of leased rules, which this process decides itself.", func(s *LeaseStats) float64 { return float64(s.Keys) }),
	gauge("lease_held_units", "Unspent units lent to this process.", func(s *LeaseStats) float64 { return float64(s.Held) }),
	gauge("lease_idle_units", "Part of these units for keys without current requests.", func(s *LeaseStats) float64 { return float64(s.Idle) }),
	gauge("lease_stranded_ratio", "Part of the units lent to this process that were returned unspent.", func(s *LeaseStats) float64 { return float64(s.Returned) / float64(max(1, s.Lent)) }),
	counter("lease_lent_units_total", "Units lent to this process in total.", func(s *LeaseStats) uint64 { return s.Lent }),
	counter("lease_home_units_total", "Units that this process returned unspent.", func(s *LeaseStats) uint64 { return s.Returned }),
	counter("lease_store_decisions_total", "Calls of leased rules that the store decided.", func(s *LeaseStats) uint64 { return s.Asks }),
	counter("lease_repeated_total", "Keys sent again because the store had not answered an earlier message.", func(s *LeaseStats) uint64 { return s.Repeated }),
	lostKeys("used_up", func(s *LeaseStats) uint64 { return s.LostUsedUp }),
	lostKeys("kept", func(s *LeaseStats) uint64 { return s.LostKept }),
	counter("lease_lost_units_total", "Unspent units of this process for keys that losses of counts touched.", func(s *LeaseStats) uint64 { return s.LostUnits }),
	counter("lease_messages_total", "Messages to the store with reports of units.", func(s *LeaseStats) uint64 { return s.Messages }),
}
