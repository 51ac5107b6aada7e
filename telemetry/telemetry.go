// Package telemetry exports Prometheus metrics of the service.
//
// The number of series depends on the rules, domains and listeners of the configuration, never on
// what clients send: a million new keys add no series and no memory.
package telemetry

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"stint"
	"stint/limiter"
	"stint/rule"
)

// Metrics counts decisions and other events of the service. It is safe for concurrent use.
//
// Counting a decision takes a few atomic additions on counters that are found by the index of the
// rule; names and labels are built only at a scrape. Rules and lists keep their counts across
// reloads as long as one with the same domain and name exists. Rules are not counted before the
// first [Metrics.Reloaded].
//
// A peek (cost 0) is not counted for its rule.
type Metrics struct {
	reg     prometheus.Registerer
	current atomic.Pointer[board]

	// catalogs are the counters for catalog rules, by domain. Their number is limited by the
	// domains of rules, whatever clients send.
	catalogs atomic.Pointer[map[string]*counters]

	latency histogram

	allowed, denied, failed   atomic.Uint64 // counts of requests
	degraded, over, unmatched atomic.Uint64 // unmatched: for unknown domains only

	banned [len(banKinds)]atomic.Uint64 // requests that bans denied

	mu        sync.Mutex // guards the fields below
	reloads   [2]uint64  // failed, succeeded
	reloaded  time.Time  // time of the last success
	reloadOK  bool
	listeners map[string]bool
	store     func() StoreStats
	shared    func() SharedStats
	catalog   func() CatalogStats
	load      func(gauge string) (load float64, fresh bool)

	saves      [2]uint64 // failed, succeeded
	saved      time.Time // time of the last success
	saveFailed bool      // whether the last save failed
}

// Metrics observes decisions and is a Prometheus collector.
var (
	_ limiter.BatchObserver = (*Metrics)(nil)
	_ prometheus.Collector  = (*Metrics)(nil)
)

// New returns metrics that are registered with reg. It panics if reg already has Stint's metrics;
// two services must not share a registry.
func New(reg prometheus.Registerer) *Metrics {
	m := &Metrics{reg: reg, listeners: map[string]bool{}}
	m.current.Store(newBoard(nil, nil))
	m.catalogs.Store(&map[string]*counters{})
	reg.MustRegister(m)
	return m
}

// NewRegistry returns a registry with the metrics of the Go runtime and of the process, for [New].
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Add registers further metrics.
func (m *Metrics) Add(more interface{ Register(prometheus.Registerer) }) { more.Register(m.reg) }

// Handler serves all metrics of the registry, in the format that the client asks for.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{})
}

// Gatherer returns all metrics of the registry.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	if all, is := m.reg.(*Collectors); is {
		reg := prometheus.NewRegistry()
		reg.MustRegister(all)
		return reg
	}
	if gatherer, ok := m.reg.(prometheus.Gatherer); ok {
		return gatherer
	}
	return prometheus.DefaultGatherer
}

// Reloaded records that table is in force since at. It must also be called at the start of the
// service.
func (m *Metrics) Reloaded(table *rule.Table, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current.Store(newBoard(table, m.current.Load()))
	m.reloads[1]++
	m.reloaded, m.reloadOK = at, true
}

// ReloadFailed records that a table was refused and the old one stays in force.
func (m *Metrics) ReloadFailed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reloads[0]++
	m.reloadOK = false
}

// Listener records whether the listener with this name, such as http, accepts calls.
func (m *Metrics) Listener(name string, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners[name] = open
}

// StoreStats are the numbers of an in-memory store.
type StoreStats struct {
	Keys  int64 // number of keys
	Bytes int64 // memory of the keys and tables
	// Evicted keys: those whose state was expired; those below their limit, to make room; and those
	// above their limit, to make room, which then have their full limit again.
	EvictedExpired, EvictedIdle, EvictedOverLimit uint64
}

// Store sets the function that returns the numbers of the store. It is called at each scrape.
func (m *Metrics) Store(read func() StoreStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store = read
}

// Load sets the function that returns the gauges that rules use. It is called at each scrape.
func (m *Metrics) Load(read func(gauge string) (load float64, fresh bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load = read
}

// Saved records that the state file was written at a time, or the error.
func (m *Metrics) Saved(at time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saveFailed = err != nil
	if err != nil {
		m.saves[0]++
		return
	}
	m.saves[1]++
	m.saved = at
}

// SharedStats are the numbers of a store on the network.
type SharedStats struct {
	Away bool // it does not answer, so failure policies decide
	// Calls without an answer in time; calls that failed otherwise; calls not sent because the
	// store was away; and calls with a state that it could not read.
	Timeouts, Errors, Spared, Undecodable uint64

	// Lost is the number of times that a server lost counts.
	Lost uint64

	// Evicted is the number of keys that servers evicted to make room for others, and with them counts.
	Evicted uint64

	// Servers are the servers of the store.
	Servers []ServerStats
}

// ServerStats is the state of one server of the store.
type ServerStats struct {
	Name string
	Away bool
}

// Shared sets the function that returns the numbers of the store on the network.
func (m *Metrics) Shared(read func() SharedStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared = read
}

// CatalogStats are the numbers of the rules per API.
type CatalogStats struct {
	Rules      int
	Generation uint64 // number of changes put in force
	Hash       string // hash of all rules
	Refused    uint64 // number of refused loads of their files
	LastFailed bool   // whether the last load was refused
}

// Catalog sets the function that returns the numbers of the catalog. It is called at each scrape.
func (m *Metrics) Catalog(read func() CatalogStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.catalog = read
}

// Decided counts one decision; see limiter.Observer.
func (m *Metrics) Decided(v *limiter.Verdict, took time.Duration, err error) {
	if took >= 0 {
		m.latency.observe(took)
	}
	if err != nil {
		m.failed.Add(1)
		return
	}
	if v.Allowed {
		m.allowed.Add(1)
	} else {
		m.denied.Add(1)
	}
	if v.Degraded {
		m.degraded.Add(1)
	}
	if v.Over {
		m.over.Add(1)
	}
	if v.Ban != "" {
		m.countBan(v.Ban)
		return
	}
	if v.Listed != nil {
		if n := m.current.Load().listed[listName{v.Domain, v.Listed.Name, v.Listed.Exempt}]; n != nil {
			n.Add(1)
		}
		return
	}
	if len(v.Asked) == 0 {
		m.countUnmatched(v)
		return
	}
	b := m.current.Load()
	for i := range v.Asked {
		m.count(b, &v.Asked[i])
	}
	if len(v.Asked) < len(v.Results) {
		m.countUnmatched(v)
	}
}

// DecidedBatch counts the decisions of a batch; see limiter.BatchObserver.
func (m *Metrics) DecidedBatch(b *limiter.Batch, took time.Duration, err error) {
	if took >= 0 {
		m.latency.observe(took)
	}
	if err != nil {
		m.failed.Add(uint64(b.Len()))
		return
	}
	var all sums
	for i := range b.Len() {
		all.add(b.Decision(i))
	}
	addTo(&m.allowed, all.allowed)
	addTo(&m.denied, all.denied)
	addTo(&m.degraded, all.degraded)
	addTo(&m.over, all.over)
	if b.Rule(0) != nil {
		m.countRules(b)
	}
}

// Totals returns how many requests were decided, how many of them by a failure policy, and how many
// failed.
func (m *Metrics) Totals() (decided, degraded, failed uint64) {
	return m.allowed.Load() + m.denied.Load(), m.degraded.Load(), m.failed.Load()
}

// RuleCounts are the counts of a rule.
type RuleCounts struct {
	Allowed, Denied uint64 // of a rule in shadow mode: what it would have done
	Over, Degraded  uint64
}

// RuleCounts returns the counts of a rule since it is in the table; those of all rules of a catalog in a
// domain if the name is catalog.
func (m *Metrics) RuleCounts(domain, name string) RuleCounts {
	c := m.current.Load().byName[ruleName{domain, name}]
	if c == nil && name == catalogName {
		c = (*m.catalogs.Load())[domain]
	}
	if c == nil {
		return RuleCounts{}
	}
	return RuleCounts{
		Allowed: c.allowed.Load(), Denied: c.denied.Load() + c.shadowDenied.Load(),
		Over: c.over.Load(), Degraded: c.degraded.Load(),
	}
}

// countUnmatched counts the descriptors that no rule matched.
func (m *Metrics) countUnmatched(v *limiter.Verdict) {
	n := uint64(0)
	for i := range v.Results {
		if r := &v.Results[i]; r.Rule == nil && r.Limit == stint.NoLimit {
			n++
		}
	}
	if counter := m.current.Load().unmatched[v.Domain]; counter != nil {
		counter.Add(n)
	} else {
		m.unmatched.Add(n)
	}
}
