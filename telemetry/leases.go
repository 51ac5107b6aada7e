package telemetry

import "github.com/prometheus/client_golang/prometheus"

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
	Home     uint64 // units of these that were given back unspent
}

// Leases says where the numbers of leases are read from, those of each store, whenever
// metrics are. It is to be called once at most.
func (m *Metrics) Leases(read func() []LeaseStats) { m.reg.MustRegister(leases{read}) }

var (
	leaseKeysDesc     = desc("lease_keys", "Busy keys of leased rules, which this process decides by itself.")
	leaseHeldDesc     = desc("lease_held_units", "Units that were lent to this process and are not spent.")
	leaseIdleDesc     = desc("lease_idle_units", "Units of these of keys that nobody asks for at present.")
	leaseStrandedDesc = desc("lease_stranded_ratio", "Part of the units that were lent to this process that it gave back unspent.")
	leaseLentDesc     = desc("lease_lent_units_total", "Units that were lent to this process.")
	leaseHomeDesc     = desc("lease_home_units_total", "Units that this process gave back unspent.")
	leaseAsksDesc     = desc("lease_store_decisions_total", "Calls about leased rules that were decided by the store.")
	leaseRepeatedDesc = desc("lease_repeated_total", "Keys in messages that were told once more, as the store had not answered.")
	leaseMessagesDesc = desc("lease_messages_total", "Messages to the store about what this process holds.")
)

// leases collects the metrics of leases.
type leases struct{ read func() []LeaseStats }

var _ prometheus.Collector = leases{}

func (l leases) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		leaseKeysDesc, leaseHeldDesc, leaseIdleDesc, leaseStrandedDesc, leaseLentDesc, leaseHomeDesc, leaseAsksDesc, leaseMessagesDesc, leaseRepeatedDesc,
	} {
		ch <- d
	}
}

func (l leases) Collect(ch chan<- prometheus.Metric) {
	out, s := sink(ch), LeaseStats{}
	for _, one := range l.read() {
		s.Keys += one.Keys
		s.Held += one.Held
		s.Idle += one.Idle
		s.Asks += one.Asks
		s.Messages += one.Messages
		s.Repeated += one.Repeated
		s.Lent += one.Lent
		s.Home += one.Home
	}
	out.gauge(leaseKeysDesc, float64(s.Keys))
	out.gauge(leaseHeldDesc, float64(s.Held))
	out.gauge(leaseIdleDesc, float64(s.Idle))
	out.gauge(leaseStrandedDesc, float64(s.Home)/float64(max(1, s.Lent)))
	out.counter(leaseLentDesc, s.Lent)
	out.counter(leaseHomeDesc, s.Home)
	out.counter(leaseAsksDesc, s.Asks)
	out.counter(leaseMessagesDesc, s.Messages)
	out.counter(leaseRepeatedDesc, s.Repeated)
}
