// Package telemetry turns what the service does into Prometheus metrics.
//
// Series are counted by rules, domains and listeners of the configuration, never by
// what a client sends: a million new keys add no series and no memory.
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

// Metrics counts decisions and what happens around them. It is safe for concurrent
// use.
//
// A decision costs a few atomic additions on counters that its rule already points
// to; names and labels are put together only when someone reads them. Rules and lists
// keep their counts over a reload as long as one of the same domain and name is
// there. Before the first [Metrics.Reloaded], rules are not counted.
//
// A peek (cost 0) counts for no rule: nothing was asked for.
type Metrics struct {
	reg     prometheus.Registerer
	current atomic.Pointer[board]

	// catalogs are the counters of rules that stand in no table, by domain. Their number
	// is that of the domains in rules, whatever clients send.
	catalogs atomic.Pointer[map[string]*counters]

	latency histogram

	allowed, denied, failed   atomic.Uint64 // whole requests
	degraded, over, unmatched atomic.Uint64 // unmatched: in domains that no table has

	mu        sync.Mutex // guards what follows
	reloads   [2]uint64  // failed, succeeded
	reloaded  time.Time  // the last success
	reloadOK  bool
	listeners map[string]bool
	store     func() StoreStats
	shared    func() SharedStats
	catalog   func() CatalogStats
	load      func(gauge string) (load float64, fresh bool)

	saves      [2]uint64 // failed, succeeded
	saved      time.Time // the last success
	saveFailed bool      // the last one
}

// Metrics is an observer of decisions and a collector of metrics.
var (
	_ limiter.Observer     = (*Metrics)(nil)
	_ prometheus.Collector = (*Metrics)(nil)
)

// New returns metrics that are registered with reg. It panics where reg holds
// Stint's metrics already: that is two services on one registry.
func New(reg prometheus.Registerer) *Metrics {
	m := &Metrics{reg: reg, listeners: map[string]bool{}}
	m.current.Store(newBoard(nil, nil))
	m.catalogs.Store(&map[string]*counters{})
	reg.MustRegister(m)
	return m
}

// NewRegistry returns a registry with the metrics of the Go runtime and of the
// process, to be given to [New].
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Add adds more metrics, of somebody who knows how to register them.
func (m *Metrics) Add(more interface{ Register(prometheus.Registerer) }) { more.Register(m.reg) }

// Handler serves all metrics of the registry, in the format that the reader asks for.
func (m *Metrics) Handler() http.Handler {
	gatherer, ok := m.reg.(prometheus.Gatherer)
	if !ok {
		gatherer = prometheus.DefaultGatherer
	}
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})
}

// Reloaded says that table is in force since at, from the start of the service on.
func (m *Metrics) Reloaded(table *rule.Table, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current.Store(newBoard(table, m.current.Load()))
	m.reloads[1]++
	m.reloaded, m.reloadOK = at, true
}

// ReloadFailed says that a table was refused and the one before stays.
func (m *Metrics) ReloadFailed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reloads[0]++
	m.reloadOK = false
}

// Listener says whether the listener of that name, such as http, accepts calls.
func (m *Metrics) Listener(name string, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners[name] = open
}

// StoreStats are the numbers of an in-memory store.
type StoreStats struct {
	Keys  int64 // how many it holds
	Bytes int64 // what they and their tables take
	// Keys that were given up: their state was that of an untouched one; they were
	// below their limit and made room; the same above it, which forgives someone.
	EvictedExpired, EvictedIdle, EvictedOverLimit uint64
}

// Store says where the numbers of the store are read from, whenever metrics are.
func (m *Metrics) Store(read func() StoreStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store = read
}

// Load says where the gauges that rules ask are read from, whenever metrics are.
func (m *Metrics) Load(read func(gauge string) (load float64, fresh bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load = read
}

// Saved says that the counts were written to the state file at a time, or why not.
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
	Away bool // it does not answer, and failure policies do
	// Calls that it did not answer in time, that it failed otherwise, that were not put to it
	// while it was away, and of which it could not read some state.
	Timeouts, Errors, Spared, Undecodable uint64

	// Lost is how often a server had forgotten counts.
	Lost uint64

	// Servers are those that hold its keys.
	Servers []ServerStats
}

// ServerStats say how a server of such a store is.
type ServerStats struct {
	Name string
	Away bool
}

// Shared says where the numbers of the store on the network are read from.
func (m *Metrics) Shared(read func() SharedStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared = read
}

// CatalogStats are the numbers of the rules that stand beside those of files.
type CatalogStats struct {
	Rules      int
	Generation uint64 // how often this process has put a change in force
	Hash       string // of all rules
	Refused    uint64 // loads of their files that were refused
	LastFailed bool   // the last one was
}

// Catalog says where the numbers of the catalog are read from, whenever metrics are.
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
