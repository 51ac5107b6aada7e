package telemetry

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stint_"+name, help, labels, nil)
}

// The metrics of the package.
var (
	requestsDesc = desc("requests_total", "Decided requests by verdict; error: the store failed to decide.", "verdict")
	degradedDesc = desc("degraded_total", "Requests decided by a failure policy because the store failed.")
	overDesc     = desc("over_total", "Requests that passed above their plain limit, in the part that soft or elastic adds.")
	listedDesc   = desc("listed_total", "Requests decided by a list of their domain, without asking a limit; list is exempt or deny.", "domain", "list", "name")
	storeErrDesc = desc("store_errors_total", "Requests that the store failed to decide.")
	latencyDesc  = desc("decision_seconds", "Duration of a decision; one in 64 is measured.")

	ruleAllowedDesc   = desc("rule_allowed_total", "Answers of a rule that did not deny.", "domain", "rule")
	ruleDeniedDesc    = desc("rule_denied_total", "Answers of a rule that denied.", "domain", "rule")
	ruleShadowDesc    = desc("rule_shadow_denied_total", "Answers of a rule in shadow mode that would have denied.", "domain", "rule")
	ruleNearLimitDesc = desc("rule_near_limit_total", "Answers of a rule that did not deny and left at most a fifth of the limit.", "domain", "rule")
	ruleOverDesc      = desc("rule_over_total", "Requests that a rule let pass above its plain limit, in a part that soft or elastic adds.", "domain", "rule")
	ruleDegradedDesc  = desc("rule_degraded_total", "Answers of a rule by its on_store_failure because the store failed.", "domain", "rule")
	unmatchedDesc     = desc("unmatched_total", "Descriptors that no rule matched, by domain; empty: unknown domains.", "domain")

	tableDesc          = desc("table_info", "1 for the table in force, by the hash of its rule files.", "hash")
	rulesDesc          = desc("rules", "Rules in force.")
	catalogDesc        = desc("catalog_info", "1 for the rules per API in force, by the hash of all of them.", "hash")
	catalogLenDesc     = desc("catalog_rules", "Rules per API in force.")
	catalogRefusedDesc = desc("catalog_reload_failures_total", "Loads of the files of rules per API that were refused.")
	catalogFailedDesc  = desc("catalog_reload_last_failed", "1 if the last load of those files was refused and older rules stay in force.")
	catalogGenDesc     = desc("catalog_generation", "Changes of the rules per API that this process has put in force.")
	reloadsDesc        = desc("reloads_total", "Tables that were put in force (success) or refused (failure), including the first.", "result")
	reloadedDesc       = desc("reload_last_success_timestamp_seconds", "When the table in force was loaded, in Unix time.")
	reloadFailsDesc    = desc("reload_last_failed", "1 if the last reload was refused and an older table stays in force.")
	listenerDesc       = desc("listener_open", "1 for a listener that accepts calls.", "listener")

	loadDesc      = desc("load", "Load of a gauge that rules use, 1 is full capacity; only while it is fresh.", "gauge")
	loadFreshDesc = desc("load_fresh", "1 while a gauge that rules use is fresh; 0: its limits allow nothing extra.", "gauge")

	savesDesc     = desc("state_saves_total", "Times that the counts were written to the state file, by result.", "result")
	savedDesc     = desc("state_last_success_timestamp_seconds", "When the counts were last written to the state file, in Unix time.")
	saveFailsDesc = desc("state_last_failed", "1 if the last write of the state file failed: a restart would load an older file.")

	storeAvailableDesc = desc("store_available", "0 while the store on the network does not answer and failure policies decide.")
	storeFailuresDesc  = desc("store_failures_total", "Calls that the store on the network did not decide, by reason; away: it was not asked because it did not answer before; undecodable: a key has a value that is not a state of this release.", "reason")

	storeServerDesc    = desc("store_server_available", "0 while failure policies decide for the keys of a server of the store.", "server")
	storeEvictionsDesc = desc("store_server_evictions_total", "Keys that memcached evicted because its memory was full, and with them counts of limits.")
	storeLostDesc      = desc("store_lost_total", "Times that a server of the store may have lost counts: it was emptied, or it has leased limits and was restarted or replaced.")

	storeKeysDesc    = desc("store_keys", "Keys in the store of this process.")
	storeBytesDesc   = desc("store_bytes", "Memory of the store of this process in bytes.")
	storeEvictedDesc = desc("store_evicted_total", "Keys that the store of this process evicted; over_limit: a key above its limit got its full limit again, raise the memory.", "reason")
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		requestsDesc, degradedDesc, overDesc, listedDesc, storeErrDesc, latencyDesc,
		ruleAllowedDesc, ruleDeniedDesc, ruleShadowDesc, ruleNearLimitDesc, ruleOverDesc, ruleDegradedDesc, unmatchedDesc,
		tableDesc, rulesDesc, catalogDesc, catalogLenDesc, catalogGenDesc, catalogRefusedDesc, catalogFailedDesc, reloadsDesc, reloadedDesc, reloadFailsDesc, listenerDesc,
		loadDesc, loadFreshDesc, savesDesc, savedDesc, saveFailsDesc,
		storeAvailableDesc, storeFailuresDesc, storeServerDesc, storeLostDesc, storeEvictionsDesc, storeKeysDesc, storeBytesDesc, storeEvictedDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	out := sink(ch)
	out.counter(requestsDesc, m.allowed.Load(), "allowed")
	out.counter(requestsDesc, m.denied.Load(), "denied")
	out.counter(requestsDesc, m.failed.Load(), "error")
	out.counter(degradedDesc, m.degraded.Load())
	out.counter(overDesc, m.over.Load())
	out.counter(storeErrDesc, m.failed.Load())
	count, sum, below := m.latency.read()
	ch <- prometheus.MustNewConstHistogram(latencyDesc, count, sum, below)
	m.collectRules(out)
	m.collectState(out)
}

func (m *Metrics) collectRules(out sink) {
	b := m.current.Load()
	for _, c := range b.all {
		out.rule(c)
	}
	catalogs := *m.catalogs.Load()
	for _, domain := range slices.Sorted(maps.Keys(catalogs)) {
		if b.byName[ruleName{domain, catalogName}] == nil {
			out.rule(catalogs[domain])
		}
	}
	for _, domain := range slices.Sorted(maps.Keys(b.unmatched)) {
		out.counter(unmatchedDesc, b.unmatched[domain].Load(), domain)
	}
	out.counter(unmatchedDesc, m.unmatched.Load(), "")
	for l, n := range b.listed {
		out.counter(listedDesc, n.Load(), l.domain, l.word(), l.name)
	}
	out.gauge(rulesDesc, float64(len(b.byIndex)))
	if b.table != nil {
		out.gauge(tableDesc, 1, b.table.Hash())
	}
}

func (m *Metrics) collectState(out sink) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out.counter(reloadsDesc, m.reloads[0], "failure")
	out.counter(reloadsDesc, m.reloads[1], "success")
	if !m.reloaded.IsZero() {
		out.gauge(reloadedDesc, float64(m.reloaded.UnixMilli())/1e3)
	}
	out.gauge(reloadFailsDesc, one(m.reloads[0] > 0 && !m.reloadOK))
	for _, name := range slices.Sorted(maps.Keys(m.listeners)) {
		out.gauge(listenerDesc, one(m.listeners[name]), name)
	}
	if m.catalog != nil {
		s := m.catalog()
		out.gauge(catalogDesc, 1, s.Hash)
		out.gauge(catalogLenDesc, float64(s.Rules))
		out.gauge(catalogGenDesc, float64(s.Generation))
		out.counter(catalogRefusedDesc, s.Refused)
		out.gauge(catalogFailedDesc, one(s.LastFailed))
	}
	m.collectLoads(out)
	out.counter(savesDesc, m.saves[0], "failure")
	out.counter(savesDesc, m.saves[1], "success")
	if !m.saved.IsZero() {
		out.gauge(savedDesc, float64(m.saved.UnixMilli())/1e3)
	}
	out.gauge(saveFailsDesc, one(m.saveFailed))
	if m.shared != nil {
		s := m.shared()
		out.gauge(storeAvailableDesc, one(!s.Away))
		out.counter(storeLostDesc, s.Lost)
		out.counter(storeEvictionsDesc, s.Evicted)
		for _, server := range s.Servers {
			out.gauge(storeServerDesc, one(!server.Away), server.Name)
		}
		out.counter(storeFailuresDesc, s.Timeouts, "timeout")
		out.counter(storeFailuresDesc, s.Errors, "error")
		out.counter(storeFailuresDesc, s.Spared, "away")
		out.counter(storeFailuresDesc, s.Undecodable, "undecodable")
	}
	if m.store == nil {
		return
	}
	s := m.store()
	out.gauge(storeKeysDesc, float64(s.Keys))
	out.gauge(storeBytesDesc, float64(s.Bytes))
	out.counter(storeEvictedDesc, s.EvictedExpired, "expired")
	out.counter(storeEvictedDesc, s.EvictedIdle, "idle")
	out.counter(storeEvictedDesc, s.EvictedOverLimit, "over_limit")
}

// collectLoads sends the gauges that the current rules use.
func (m *Metrics) collectLoads(out sink) {
	if m.load == nil {
		return
	}
	for _, name := range m.current.Load().gauges {
		load, fresh := m.load(name)
		if fresh {
			out.gauge(loadDesc, load, name)
		}
		out.gauge(loadFreshDesc, one(fresh), name)
	}
}

// sink receives metrics.
type sink chan<- prometheus.Metric

func (out sink) counter(d *prometheus.Desc, value uint64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// rule sends the counters of a rule.
func (out sink) rule(c *counters) {
	out.counter(ruleAllowedDesc, c.allowed.Load(), c.domain, c.name)
	out.counter(ruleDeniedDesc, c.denied.Load(), c.domain, c.name)
	out.counter(ruleShadowDesc, c.shadowDenied.Load(), c.domain, c.name)
	out.counter(ruleNearLimitDesc, c.nearLimit.Load(), c.domain, c.name)
	out.counter(ruleOverDesc, c.over.Load(), c.domain, c.name)
	out.counter(ruleDegradedDesc, c.degraded.Load(), c.domain, c.name)
}

func (out sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
