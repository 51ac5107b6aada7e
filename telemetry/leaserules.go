package telemetry

// LeaseRule are the numbers of one leased rule in one store on the network.
type LeaseRule struct {
	Domain, Rule string
	Held         int64  // unspent units lent to this process
	Idle         int64  // part of Held for keys without current requests
	Asks         uint64 // takes that the store decided
	Reported     uint64 // keys reported to the store in addition
	Lent         uint64 // units lent in total
	Returned     uint64 // units of these that were returned unspent
	Own          uint64 // takes charged to the share of this process
}

// LeaseRules sets the function that returns the numbers of leased rules. A rule may occur several
// times, once for each store. The function is called at each scrape. Call LeaseRules at most once.
func (m *Metrics) LeaseRules(read func() []LeaseRule) {
	m.reg.MustRegister(numbers[leaseRule]{leaseRuleNumbers, func(tell func(*leaseRule, ...string)) {
		board := m.current.Load()
		for name, r := range leaseRulesOf(read()) {
			if c := board.byName[name]; c != nil {
				r.decided = c.allowed.Load() + c.denied.Load()
			}
			tell(r, name.domain, name.name)
		}
	}})
}

// leaseRule is the sum over all stores.
type leaseRule struct {
	LeaseRule
	decided uint64 // takes of the rule in this process
}

// leaseRulesOf adds the numbers of all stores for each rule.
func leaseRulesOf(all []LeaseRule) map[ruleName]*leaseRule {
	sums := map[ruleName]*leaseRule{}
	for _, one := range all {
		sum := sums[ruleName{one.Domain, one.Rule}]
		if sum == nil {
			sum = new(leaseRule)
			sums[ruleName{one.Domain, one.Rule}] = sum
		}
		sum.Held += one.Held
		sum.Idle += one.Idle
		sum.Asks += one.Asks
		sum.Reported += one.Reported
		sum.Lent += one.Lent
		sum.Returned += one.Returned
		sum.Own += one.Own
	}
	return sums
}

// leaseRuleNumbers are the metrics of leased rules.
var leaseRuleNumbers = []number[leaseRule]{
	gauge("lease_rule_held_units", "Unspent units of a leased rule lent to this process.", func(s *leaseRule) float64 { return float64(s.Held) }, "domain", "rule"),
	gauge("lease_rule_idle_units", "Part of these units for keys without current requests.", func(s *leaseRule) float64 { return float64(s.Idle) }, "domain", "rule"),
	gauge("lease_rule_stranded_ratio", "Part of the units of a leased rule lent to this process that were returned unspent.", func(s *leaseRule) float64 { return float64(s.Returned) / float64(max(1, s.Lent)) }, "domain", "rule"),
	counter("lease_rule_lent_units_total", "Units of a leased rule lent to this process in total.", func(s *leaseRule) uint64 { return s.Lent }, "domain", "rule"),
	counter("lease_rule_home_units_total", "Units of a leased rule that this process returned unspent.", func(s *leaseRule) uint64 { return s.Returned }, "domain", "rule"),
	counter("lease_rule_store_decisions_total", "Decisions of a leased rule by the store.", func(s *leaseRule) uint64 { return s.Asks }, "domain", "rule"),
	counter("lease_rule_told_total", "Keys of a leased rule in messages to the store.", func(s *leaseRule) uint64 { return s.Reported }, "domain", "rule"),
	gauge("lease_rule_store_calls_ratio", "Store decisions and reported keys of a leased rule, for each decision in this process.", func(s *leaseRule) float64 { return float64(s.Asks+s.Reported) / float64(max(1, s.decided)) }, "domain", "rule"),
	counter("lease_rule_own_total", "Decisions of a leased rule charged to the share of this process.", func(s *leaseRule) uint64 { return s.Own }, "domain", "rule"),
}
