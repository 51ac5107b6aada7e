package telemetry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
)

// answers is a store that answers each take in turn with one of them, or fails if there are none.
type answers []stint.Decision

func (a answers) Decide(_ context.Context, c *stint.Call) error {
	c.SizeResults()
	for i := range c.Results {
		if len(a) == 0 {
			return errors.New("away")
		}
		c.Results[i] = a[i%len(a)]
	}
	return nil
}

// Each request of a batch is counted once, by all that count.
func TestBatchIsCounted(t *testing.T) {
	m, envoy := New(prometheus.NewRegistry()), NewEnvoyStats(0.8, EnvoySources{})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: 1e9})
	var b limiter.Batch
	for range 8 {
		b.Add([]byte("key"), limit, 1)
	}
	decisions := answers{{Allowed: true}, {Allowed: true, Over: true}, {}, {Allowed: true, Degraded: true}}
	for _, observer := range []limiter.Observer{m, envoy} {
		testkit.Must(t, limiter.New(decisions, nil, limiter.Options{Observer: observer}).DecideBatch(t.Context(), &b))
		if limiter.New(answers{}, nil, limiter.Options{Observer: observer}).DecideBatch(t.Context(), &b) == nil {
			t.Error("the store has failed")
		}
	}
	s := &service{metrics: m}
	s.expect(t, `
		stint_requests_total{verdict="allowed"} 6
		stint_requests_total{verdict="denied"} 2
		stint_requests_total{verdict="error"} 8
		stint_over_total 2
		stint_degraded_total 2
		stint_decision_seconds_count 2
	`)
	if n := envoy.missing[""]; n != 8 {
		t.Errorf("%d requests without a domain", n)
	}
}

// Requests of a batch by rules are counted as those that come one by one.
func TestBatchOfRulesIsCounted(t *testing.T) {
	rules := parse(t, rules+"  - key: other\n    rate_limit: {requests: 40, per: 1h}\n")
	decided := func(batch bool) (metrics string, envoy map[string]uint64) {
		reg := prometheus.NewPedanticRegistry()
		m, s := New(reg), NewEnvoyStats(0.8, EnvoySources{})
		m.Reloaded(rules, time.Unix(0, 0))
		s.Reloaded(rules)
		for _, observer := range []limiter.Observer{m, s} {
			l := limiter.New(memory.New(memory.Options{}), rules, limiter.Options{Observer: observer})
			var b limiter.Batch
			for i := range 60 {
				entries := []rule.Entry{{Key: []string{"user", "other"}[i/5%2], Value: "x"}}
				if batch {
					if !l.Join(&b, "api", entries, uint32(i%3)) {
						t.Fatal("a plain limit does not join")
					}
					continue
				}
				var v limiter.Verdict
				testkit.Must(t, l.Decide(t.Context(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: entries, Cost: uint32(i % 3)}}}, &v))
			}
			if batch {
				testkit.Must(t, l.DecideBatch(t.Context(), &b))
			}
		}
		for _, name := range []string{"api/user", "api/other"} {
			metrics += fmt.Sprintf("%+v ", m.RuleCounts("api", name))
		}
		decided, degraded, failed := m.Totals()
		metrics += fmt.Sprint(decided, degraded, failed, m.allowed.Load(), m.current.Load().byName[ruleName{"api", "api/user"}].nearLimit.Load())
		envoy = map[string]uint64{}
		s.Counters(func(name string, total uint64) { envoy[name] = total })
		return metrics, envoy
	}
	wantMetrics, wantEnvoy := decided(false)
	gotMetrics, gotEnvoy := decided(true)
	if gotMetrics != wantMetrics || !strings.HasPrefix(wantMetrics, "{Allowed:4 Denied:16 ") {
		t.Errorf("%s, want %s", gotMetrics, wantMetrics)
	}
	if !maps.Equal(gotEnvoy, wantEnvoy) {
		t.Errorf("%v, want %v", gotEnvoy, wantEnvoy)
	}
}
