package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 5, per: 1h}
  - key: shadow
    rate_limit: {requests: 1, per: 1h}
    shadow_mode: true
  - key: free
    rate_limit: {unlimited: true}
`

func parse(t testing.TB, files ...string) *rule.Table {
	t.Helper()
	var sources []rulefile.Source
	for i, text := range files {
		sources = append(sources, rulefile.Source{Name: fmt.Sprintf("%d.yaml", i), Data: []byte(text)})
	}
	table, err := rulefile.Parse(sources...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// service is a limiter with metrics.
type service struct {
	*limiter.Limiter
	metrics *Metrics
	reg     *prometheus.Registry
}

func newService(t testing.TB, table *rule.Table) *service {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	m.Reloaded(table, time.Unix(1767225600, 5e8))
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{Observer: m})
	return &service{l, m, reg}
}

// ask decides one descriptor with one entry n times.
func (s *service) ask(t testing.TB, domain, key, value string, cost uint32, n int) {
	t.Helper()
	req := limiter.Request{Domain: domain, Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: key, Value: value}}, Cost: cost}}}
	var v limiter.Verdict
	for range n {
		if err := s.Decide(t.Context(), &req, &v); err != nil {
			t.Fatal(err)
		}
	}
}

// series returns the number of all series of the registry; it fails if one is invalid.
func (s *service) series(t *testing.T) int {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

// expect checks that each of these lines is in the metrics.
func (s *service) expect(t *testing.T, want string) {
	t.Helper()
	got := scrape(t, s.metrics)
	for line := range strings.Lines(strings.TrimLeft(want, "\n")) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(got, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			name, _, _ = strings.Cut(name, " ")
			t.Errorf("no line %s\nbut\n%s", line, about(got, name))
		}
	}
}

// about returns the lines of a metric.
func about(text, name string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// scrape reads the metrics as Prometheus does.
func scrape(t testing.TB, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v: %s", w.Code, err, body)
	}
	return string(body)
}

func TestCounts(t *testing.T) {
	s := newService(t, parse(t, rules))
	s.ask(t, "api", "user", "a", 1, 7) // 5 pass, the last two of them near the limit; 2 are denied
	s.ask(t, "api", "user", "a", 0, 9) // peeks are not counted for a rule
	s.ask(t, "api", "shadow", "a", 1, 3)
	s.ask(t, "api", "free", "a", 1, 2)
	s.ask(t, "api", "nobody", "a", 1, 4)
	s.ask(t, "no such domain", "user", "a", 1, 6)
	s.expect(t, `
		stint_rule_allowed_total{domain="api",rule="api/user"} 5
		stint_rule_denied_total{domain="api",rule="api/user"} 2
		stint_rule_near_limit_total{domain="api",rule="api/user"} 2
		stint_rule_shadow_denied_total{domain="api",rule="api/user"} 0
		stint_rule_allowed_total{domain="api",rule="api/shadow"} 1
		stint_rule_denied_total{domain="api",rule="api/shadow"} 0
		stint_rule_near_limit_total{domain="api",rule="api/shadow"} 1
		stint_rule_shadow_denied_total{domain="api",rule="api/shadow"} 2
		stint_rule_allowed_total{domain="api",rule="api/free"} 2
		stint_rule_near_limit_total{domain="api",rule="api/free"} 0
		stint_unmatched_total{domain="api"} 4
		stint_unmatched_total{domain=""} 6
		stint_requests_total{verdict="allowed"} 29
		stint_requests_total{verdict="denied"} 2
		stint_requests_total{verdict="error"} 0
		stint_rules 3
	`)
}

// Unmatched descriptors are counted even if other descriptors of the request match.
func TestPartlyUnmatched(t *testing.T) {
	s := newService(t, parse(t, rules))
	entry := func(key string) limiter.Descriptor {
		return limiter.Descriptor{Entries: []rule.Entry{{Key: key, Value: "x"}}, Cost: 1}
	}
	req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{entry("user"), entry("a"), entry("b")}}
	if err := s.Decide(t.Context(), &req, new(limiter.Verdict)); err != nil {
		t.Fatal(err)
	}
	s.expect(t, `
		stint_rule_allowed_total{domain="api",rule="api/user"} 1
		stint_unmatched_total{domain="api"} 2
	`)
}

// A request with its own limit is counted, and not as unmatched.
func TestInline(t *testing.T) {
	s := newService(t, parse(t, rules))
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour})
	req := limiter.Request{Descriptors: []limiter.Descriptor{{Cost: 1}}}
	for range 3 {
		if err := s.DecideInline(t.Context(), "k", limit, &req, new(limiter.Verdict)); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(t, `
		stint_requests_total{verdict="allowed"} 1
		stint_requests_total{verdict="denied"} 2
		stint_unmatched_total{domain=""} 0
	`)
}

// Rules keep their counts across a reload that moves them, a removed rule has no series, and a
// request that the old table decided is still counted.
func TestReload(t *testing.T) {
	before := parse(t, rules)
	s := newService(t, before)
	s.ask(t, "api", "user", "a", 1, 3)
	s.ask(t, "api", "free", "a", 1, 1)
	s.ask(t, "api", "nobody", "a", 1, 1)
	after := parse(t, `
domain: api
descriptors:
  - key: new
    rate_limit: {requests: 5, per: 1h}
  - key: user
    rate_limit: {requests: 100, per: 1h}
`)
	s.metrics.Reloaded(after, time.Unix(1767225700, 0))
	s.ask(t, "api", "user", "a", 1, 2) // decided with the old table
	s.ask(t, "api", "free", "a", 1, 1)
	s.Swap(after)
	s.ask(t, "api", "user", "a", 1, 4)
	s.ask(t, "api", "new", "a", 1, 1)
	s.ask(t, "api", "nobody", "a", 1, 1)
	s.metrics.ReloadFailed()
	s.expect(t, `
		stint_rule_allowed_total{domain="api",rule="api/user"} 9
		stint_rule_allowed_total{domain="api",rule="api/new"} 1
		stint_unmatched_total{domain="api"} 2
		stint_rules 2
		stint_reloads_total{result="success"} 2
		stint_reloads_total{result="failure"} 1
		stint_reload_last_failed 1
		stint_reload_last_success_timestamp_seconds 1.7672257e+09
		stint_table_info{hash="`+after.Hash()+`"} 1
	`)
	if text := scrape(t, s.metrics); strings.Contains(text, "api/free") {
		t.Error("a rule that is gone still has series")
	}
	s.metrics.Reloaded(before, time.Unix(1767225800, 0))
	s.expect(t, "stint_reload_last_failed 0")
}

// The decisions of a list are counted by its name, also across reloads.
func TestLists(t *testing.T) {
	const text = `
domain: api
exempt: [{key: user, values: [ops], name: operators}]
deny: [{key: user, values: [eve]}]
descriptors: [{key: user, rate_limit: {requests: 1, per: 1s}}]
`
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{metrics: New(prometheus.NewRegistry())}
	s.metrics.Reloaded(table, time.Unix(1767225600, 0))
	lists := table.Domain("api").Lists()
	for _, l := range []*rule.Listed{lists[0], lists[1], lists[0], {Name: "of no table"}} {
		s.metrics.Decided(&limiter.Verdict{Domain: "api", Decision: stint.Decision{Allowed: l.Exempt}, Listed: l, Results: make([]limiter.Result, 1)}, -1, nil)
	}
	s.metrics.Reloaded(table, time.Unix(1767225700, 0))
	s.expect(t, `
		stint_listed_total{domain="api",list="exempt",name="operators"} 2
		stint_listed_total{domain="api",list="deny",name="api/deny#1"} 1
		stint_unmatched_total{domain="api"} 0
		stint_requests_total{verdict="denied"} 2
	`)
}

func TestErrors(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.Decided(new(limiter.Verdict), -1, errors.New("no store"))
	m.Decided(&limiter.Verdict{Decision: stint.Decision{Allowed: true, Degraded: true}}, -1, nil)
	m.Decided(&limiter.Verdict{Decision: stint.Decision{Allowed: true, Over: true}}, -1, nil)
	m.Shared(func() SharedStats {
		return SharedStats{
			Away: true, Timeouts: 1, Errors: 2, Spared: 3, Undecodable: 4, Lost: 5, Servers: []ServerStats{{Name: "a:1"}, {Name: "b:1", Away: true}},
		}
	})
	s := &service{metrics: m}
	s.expect(t, `
		stint_unmatched_total{domain=""} 0
		stint_store_errors_total 1
		stint_requests_total{verdict="error"} 1
		stint_degraded_total 1
		stint_over_total 1
		stint_store_available 0
		stint_store_server_available{server="a:1"} 1
		stint_store_server_available{server="b:1"} 0
		stint_store_lost_total 5
		stint_store_failures_total{reason="timeout"} 1
		stint_store_failures_total{reason="error"} 2
		stint_store_failures_total{reason="away"} 3
		stint_store_failures_total{reason="undecodable"} 4
		stint_reload_last_failed 0
	`)
}

// Decisions of failure policies are counted for their rule, in addition to their result.
func TestDegradedByRule(t *testing.T) {
	table := parse(t, rules)
	s := newService(t, table)
	for _, d := range []stint.Decision{{Degraded: true, Allowed: true, Limit: stint.NoLimit}, {Degraded: true}, {Allowed: true, Limit: 9, Remaining: 9}} {
		asked := limiter.Asked{Rule: table.Rules()[0], Cost: 1, Decision: d}
		s.metrics.Decided(&limiter.Verdict{Decision: d, Asked: []limiter.Asked{asked}, Results: make([]limiter.Result, 1)}, -1, nil)
	}
	name := fmt.Sprintf(`{domain=%q,rule=%q}`, table.Rules()[0].Domain, table.Rules()[0].Name)
	s.expect(t, "stint_degraded_total 2\nstint_rule_degraded_total"+name+" 2\nstint_rule_allowed_total"+name+" 2\nstint_rule_denied_total"+name+" 1")
}

func TestState(t *testing.T) {
	s := newService(t, nil)
	s.metrics.Listener("http", true)
	s.metrics.Listener("admin", false)
	s.metrics.Store(func() StoreStats {
		return StoreStats{Keys: 1, Bytes: 2, EvictedExpired: 3, EvictedIdle: 4, EvictedOverLimit: 5}
	})
	s.expect(t, `
		stint_listener_open{listener="http"} 1
		stint_listener_open{listener="admin"} 0
		stint_store_keys 1
		stint_store_bytes 2
		stint_store_evicted_total{reason="expired"} 3
		stint_store_evicted_total{reason="idle"} 4
		stint_store_evicted_total{reason="over_limit"} 5
		stint_rules 0
		stint_reload_last_success_timestamp_seconds 1.7672256005e+09
	`)
}

// A duration counts in the first bucket whose bound is not below it.
func TestHistogram(t *testing.T) {
	s := newService(t, nil)
	for _, d := range []time.Duration{0, 128, 129, 256, 257, 1 << 30, 1<<30 + 1, time.Hour} {
		s.metrics.Decided(new(limiter.Verdict), d, nil)
	}
	s.metrics.Decided(new(limiter.Verdict), -1, nil) // not measured
	s.expect(t, `
		stint_decision_seconds_bucket{le="1.28e-07"} 2
		stint_decision_seconds_bucket{le="2.56e-07"} 4
		stint_decision_seconds_bucket{le="5.12e-07"} 5
		stint_decision_seconds_bucket{le="0.536870912"} 5
		stint_decision_seconds_bucket{le="1.073741824"} 6
		stint_decision_seconds_bucket{le="+Inf"} 8
		stint_decision_seconds_count 8
	`)
}

// A million keys and domains of clients add no series.
func TestHostileKeys(t *testing.T) {
	s := newService(t, parse(t, rules))
	before := s.series(t)
	for i := range 10_000 {
		name := fmt.Sprint("attacker-", i)
		s.ask(t, "api", "user", name, 1, 1)
		s.ask(t, name, name, name, 1, 1)
	}
	if after := s.series(t); before != after {
		t.Errorf("%d series became %d", before, after)
	}
	if strings.Contains(scrape(t, s.metrics), "attacker") {
		t.Error("a client's value stands in the metrics")
	}
}

// Concurrent counting, scraping and reloading lose no counts.
func TestConcurrent(t *testing.T) {
	table := parse(t, rules)
	s := newService(t, table)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 500 {
				s.ask(t, "api", "free", fmt.Sprint(g, i), 1, 1)
			}
		})
	}
	group.Go(func() {
		for i := range 20 {
			s.metrics.Reloaded(table, time.Unix(int64(i+1), 0))
			scrape(t, s.metrics)
		}
	})
	group.Wait()
	s.expect(t, `stint_rule_allowed_total{domain="api",rule="api/free"} 2000`)
}

func TestNewRegistry(t *testing.T) {
	text := scrape(t, New(NewRegistry()))
	for _, name := range []string{"\ngo_goroutines ", "\nprocess_resident_memory_bytes ", "\nstint_rules "} {
		if !strings.Contains(text, name) {
			t.Errorf("no %s", strings.TrimSpace(name))
		}
	}
}

// Prometheus' linter accepts the names and help texts.
func TestLint(t *testing.T) {
	s := newService(t, parse(t, rules))
	s.metrics.Store(func() StoreStats { return StoreStats{} })
	problems, err := promlint.New(strings.NewReader(scrape(t, s.metrics))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestNoAllocation checks that counting does not allocate.
func TestNoAllocation(t *testing.T) {
	observe := observeForTest(t)
	if n := testing.AllocsPerRun(100, observe); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecided(b *testing.B) {
	observe := observeForTest(b)
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			observe()
		}
	})
	b.Run("all at once", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				observe()
			}
		})
	})
}

// observeForTest returns a function that counts a decision.
func observeForTest(tb testing.TB) func() {
	s := newService(tb, parse(tb, rules))
	req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "a"}}, Cost: 1}}}
	var v limiter.Verdict
	if err := s.Decide(context.Background(), &req, &v); err != nil {
		tb.Fatal(err)
	}
	return func() { s.metrics.Decided(&v, -1, nil) }
}

// A gauge is exported while it is fresh and if a rule uses it.
func TestLoads(t *testing.T) {
	s := newService(t, parse(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 5, per: 1h, elastic: {from: load, below: 70%, upto: 200%}}
  - key: job
    rate_limit: {requests: 5, per: 1h, elastic: {from: load, gauge: db, below: 70%, upto: 200%}}
`))
	before := s.series(t)
	s.metrics.Load(func(name string) (float64, bool) { return 0.25, name != "api" })
	s.expect(t, `
		stint_load{gauge="db"} 0.25
		stint_load_fresh{gauge="db"} 1
		stint_load_fresh{gauge="api"} 0
	`)
	if n := s.series(t) - before; n != 3 {
		t.Errorf("%d series of gauges, want 3", n)
	}
}

func TestSaved(t *testing.T) {
	s := newService(t, parse(t, rules))
	s.expect(t, `
		stint_state_saves_total{result="failure"} 0
		stint_state_last_failed 0
	`)
	s.metrics.Saved(time.Unix(1767225600, 5e8), nil)
	s.metrics.Saved(time.Unix(1767225700, 0), errors.New("disk full"))
	s.expect(t, `
		stint_state_saves_total{result="failure"} 1
		stint_state_saves_total{result="success"} 1
		stint_state_last_success_timestamp_seconds 1.7672256005e+09
		stint_state_last_failed 1
	`)
	s.metrics.Saved(time.Unix(1767225800, 0), nil)
	s.expect(t, `
		stint_state_saves_total{result="success"} 2
		stint_state_last_success_timestamp_seconds 1.7672258e+09
		stint_state_last_failed 0
	`)
}
