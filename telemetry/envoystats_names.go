package telemetry

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// dotted matches an IPv4 address, whose dots would become levels of the name.
var dotted = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// statistics are the counters of a limit.
var statistics = []struct {
	name string
	of   func(*envoyCounters) *atomic.Uint64
	desc *prometheus.Desc
}{
	{"total_hits", func(c *envoyCounters) *atomic.Uint64 { return &c.total }, limitDesc("total_hits", "Hits that a limit was asked for.")},
	{"over_limit", func(c *envoyCounters) *atomic.Uint64 { return &c.over }, limitDesc("over_limit", "Hits that did not fit into it.")},
	{"near_limit", func(c *envoyCounters) *atomic.Uint64 { return &c.near }, limitDesc("near_limit", "Hits between the near threshold and the limit.")},
	{"within_limit", func(c *envoyCounters) *atomic.Uint64 { return &c.within }, limitDesc("within_limit", "Hits that passed.")},
	{"shadow_mode", func(c *envoyCounters) *atomic.Uint64 { return &c.shadow }, limitDesc("shadow_mode", "Hits that did not fit and passed, as the limit is in shadow mode.")},
}

func limitDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_rate_limit_"+name, help, []string{"domain", "key1", "key2"}, nil)
}

// service are the counters that do not belong to a limit.
var (
	errorDesc    = prometheus.NewDesc("ratelimit_service_should_rate_limit_error", "Calls that were answered by an error.", []string{"err_type"}, nil)
	totalDesc    = prometheus.NewDesc("ratelimit_service_total_requests", "Calls.", []string{"grpc_method"}, nil)
	loadedDesc   = prometheus.NewDesc("ratelimit_service_config_load_success", "Rules that were put in force.", nil, nil)
	refusedDesc  = prometheus.NewDesc("ratelimit_service_config_load_error", "Rules that were refused.", nil, nil)
	shadowDesc   = prometheus.NewDesc("ratelimit_service_global_shadow_mode", "Calls that passed only because of the global shadow mode.", nil, nil)
	notFoundDesc = prometheus.NewDesc("ratelimit_service_rate_limit_domain_not_found", "Calls about a domain that no rule file has.", []string{"domain"}, nil)
)

// method is the only method that is counted.
const method = "ShouldRateLimit"

// Counters yields all counters with their StatsD names.
func (s *EnvoyStats) Counters(yield func(name string, total uint64)) {
	const limits = "ratelimit.service.rate_limit."
	for _, c := range s.limits() {
		for _, one := range statistics {
			yield(limits+c.path+"."+one.name, one.of(c).Load())
		}
	}
	for _, m := range s.misses() {
		yield(limits+m.domain+".domain_not_found", m.count)
	}
	service, store, shadowed := s.errors()
	yield("ratelimit.service.call.should_rate_limit.service_error", service)
	yield("ratelimit.service.call.should_rate_limit.redis_error", store)
	yield("ratelimit.service.global_shadow_mode", shadowed)
	yield("ratelimit.service.config_load_success", s.loads[1].Load())
	yield("ratelimit.service.config_load_error", s.loads[0].Load())
	yield("ratelimit_server."+method+".total_requests", s.calls())
}

// limits returns the counters of all limits, with one entry for each name.
func (s *EnvoyStats) limits() []*envoyCounters {
	b := s.current.Load()
	all := slices.Clone(b.all)
	for _, c := range s.details.list() {
		if b.byPath[c.path] == nil {
			all = append(all, c)
		}
	}
	return all
}

func (s *EnvoyStats) calls() uint64 {
	if s.sources.Calls == nil {
		return 0
	}
	return s.sources.Calls()
}

func (s *EnvoyStats) errors() (service, store, shadowed uint64) {
	if s.sources.Errors == nil {
		return 0, 0, 0
	}
	return s.sources.Errors()
}

// missed is the number of requests for an unknown domain.
type missed struct {
	domain string
	count  uint64
}

func (s *EnvoyStats) misses() (list []missed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, domain := range slices.Sorted(maps.Keys(s.missing)) {
		list = append(list, missed{domain, s.missing[domain]})
	}
	return list
}

// collector exports the statistics to Prometheus.
type collector struct{ *EnvoyStats }

// Register adds the statistics to a registry, under the names that envoyproxy/ratelimit uses there:
// the labels of a limit are its domain, the first level of its descriptor as key1, and all further
// levels, joined by dots, as key2.
func (s *EnvoyStats) Register(reg prometheus.Registerer) { reg.MustRegister(collector{s}) }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range statistics {
		ch <- one.desc
	}
	for _, d := range []*prometheus.Desc{errorDesc, totalDesc, loadedDesc, refusedDesc, shadowDesc, notFoundDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, value uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	for _, limit := range c.limits() {
		for _, one := range statistics {
			show(one.desc, one.of(limit).Load(), limit.domain, limit.keys[0], strings.Join(limit.keys[1:], "."))
		}
	}
	for _, m := range c.misses() {
		show(notFoundDesc, m.count, m.domain)
	}
	service, store, shadowed := c.errors()
	show(errorDesc, service, "service_error")
	show(errorDesc, store, "redis_error")
	show(shadowDesc, shadowed)
	show(loadedDesc, c.loads[1].Load())
	show(refusedDesc, c.loads[0].Load())
	show(totalDesc, c.calls(), method)
}
