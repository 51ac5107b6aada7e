package telemetry

import "github.com/prometheus/client_golang/prometheus"

// LeaseRule are the numbers of one leased rule, of one store on the network.
type LeaseRule struct {
	Domain, Rule string
	Held         int64  // units that were lent to this process and are not spent
	Idle         int64  // of these, the units of keys that nobody asks for at present
	Asks         uint64 // takes that the store decided
	Told         uint64 // keys of which it was told besides
	Lent         uint64 // units that were lent
	Home         uint64 // units of these that were given back unspent
	Own          uint64 // takes that were charged to what this process has to itself
}

// LeaseRules says where the numbers of each leased rule are read from, whenever metrics are.
// A rule may come several times, once from each store. It is to be called once at most.
func (m *Metrics) LeaseRules(read func() []LeaseRule) { m.reg.MustRegister(leaseRules{m, read}) }

var (
	leaseRuleHeldDesc     = desc("lease_rule_held_units", "Units of a leased rule that were lent to this process and are not spent.", "domain", "rule")
	leaseRuleIdleDesc     = desc("lease_rule_idle_units", "Units of these of keys that nobody asks for at present.", "domain", "rule")
	leaseRuleStrandedDesc = desc("lease_rule_stranded_ratio", "Part of the units of a leased rule that were lent to this process that it gave back unspent.", "domain", "rule")
	leaseRuleLentDesc     = desc("lease_rule_lent_units_total", "Units of a leased rule that were lent to this process.", "domain", "rule")
	leaseRuleHomeDesc     = desc("lease_rule_home_units_total", "Units of a leased rule that this process gave back unspent.", "domain", "rule")
	leaseRuleAsksDesc     = desc("lease_rule_store_decisions_total", "Decisions of a leased rule that the store made.", "domain", "rule")
	leaseRuleToldDesc     = desc("lease_rule_told_total", "Keys of a leased rule of which the store was told in messages.", "domain", "rule")
	leaseRuleCallsDesc    = desc("lease_rule_store_calls_ratio", "What the store was asked and told of a leased rule, for each decision of it in this process.", "domain", "rule")
	leaseRuleOwnDesc      = desc("lease_rule_own_total", "Decisions of a leased rule that were charged to what this process has of it to itself.", "domain", "rule")
)

// leaseRules collects the metrics of leased rules.
type leaseRules struct {
	of   *Metrics
	read func() []LeaseRule
}

var _ prometheus.Collector = leaseRules{}

func (l leaseRules) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		leaseRuleHeldDesc, leaseRuleIdleDesc, leaseRuleStrandedDesc, leaseRuleLentDesc, leaseRuleHomeDesc,
		leaseRuleAsksDesc, leaseRuleToldDesc, leaseRuleCallsDesc, leaseRuleOwnDesc,
	} {
		ch <- d
	}
}

func (l leaseRules) Collect(ch chan<- prometheus.Metric) {
	sums := map[ruleName]*LeaseRule{}
	for _, one := range l.read() {
		sum := sums[ruleName{one.Domain, one.Rule}]
		if sum == nil {
			sum = new(LeaseRule)
			sums[ruleName{one.Domain, one.Rule}] = sum
		}
		sum.Held += one.Held
		sum.Idle += one.Idle
		sum.Asks += one.Asks
		sum.Told += one.Told
		sum.Lent += one.Lent
		sum.Home += one.Home
		sum.Own += one.Own
	}
	out, board := sink(ch), l.of.current.Load()
	for name, r := range sums {
		decided := uint64(0)
		if c := board.byName[name]; c != nil {
			decided = c.allowed.Load() + c.denied.Load()
		}
		out.gauge(leaseRuleHeldDesc, float64(r.Held), name.domain, name.name)
		out.gauge(leaseRuleIdleDesc, float64(r.Idle), name.domain, name.name)
		out.gauge(leaseRuleStrandedDesc, float64(r.Home)/float64(max(1, r.Lent)), name.domain, name.name)
		out.gauge(leaseRuleCallsDesc, float64(r.Asks+r.Told)/float64(max(1, decided)), name.domain, name.name)
		out.counter(leaseRuleLentDesc, r.Lent, name.domain, name.name)
		out.counter(leaseRuleHomeDesc, r.Home, name.domain, name.name)
		out.counter(leaseRuleAsksDesc, r.Asks, name.domain, name.name)
		out.counter(leaseRuleToldDesc, r.Told, name.domain, name.name)
		out.counter(leaseRuleOwnDesc, r.Own, name.domain, name.name)
	}
}
