package telemetry

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
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
