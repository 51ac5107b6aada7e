package telemetry

// LeaseStats are the numbers of what one store on the network lent to this process, so that
// it decides busy keys of leased rules by itself.
type LeaseStats struct {
	Keys     int64  // that are busy
	Held     int64  // units of them that this process holds and has not spent
	Idle     int64  // of these, the units of keys that nobody asks for at present
	Asks     uint64 // calls about leased rules that the store decided
	Messages uint64 // what else was told it about what this process holds
	Repeated uint64 // keys in these that had no answer before
	Lent     uint64 // units that were lent
	Returned uint64 // units of these that were given back unspent
}

// Leases says where the numbers of leases are read from, those of each store, whenever
// metrics are. It is to be called once at most.
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
		}
		tell(&s)
	}})
}

// leaseNumbers are the metrics of these.
var leaseNumbers = []number[LeaseStats]{
	gauge("lease_keys", "Busy keys of leased rules, which this process decides by itself.", func(s *LeaseStats) float64 { return float64(s.Keys) }),
	gauge("lease_held_units", "Units that were lent to this process and are not spent.", func(s *LeaseStats) float64 { return float64(s.Held) }),
	gauge("lease_idle_units", "Units of these of keys that nobody asks for at present.", func(s *LeaseStats) float64 { return float64(s.Idle) }),
	gauge("lease_stranded_ratio", "Part of the units that were lent to this process that it gave back unspent.", func(s *LeaseStats) float64 { return float64(s.Returned) / float64(max(1, s.Lent)) }),
	counter("lease_lent_units_total", "Units that were lent to this process.", func(s *LeaseStats) uint64 { return s.Lent }),
	counter("lease_home_units_total", "Units that this process gave back unspent.", func(s *LeaseStats) uint64 { return s.Returned }),
	counter("lease_store_decisions_total", "Calls about leased rules that were decided by the store.", func(s *LeaseStats) uint64 { return s.Asks }),
	counter("lease_repeated_total", "Keys in messages that were told once more, as the store had not answered.", func(s *LeaseStats) uint64 { return s.Repeated }),
	counter("lease_messages_total", "Messages to the store about what this process holds.", func(s *LeaseStats) uint64 { return s.Messages }),
}
