package app

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// parentOf returns a traceparent: the span n of a caller, and whether it is sampled.
func parentOf(n, flags int) string {
	return fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e4736-%016x-%02x", n, flags)
}

// A decision is part of its caller's trace, whichever way it is asked for, and the round trip to Redis is
// below it. The collector gets the metrics too. Nothing that it gets has a key.
func TestOTLP(t *testing.T) {
	t.Parallel()
	c := programs.StartCollector(t)
	redis := testkit.StartRedis(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, strings.Replace(demoRules, "descriptors:\n", "descriptors:\n  - key: user\n    rate_limit: {name: per user, requests: 3, per: 366d}\n", 1))
	s := start(t, func(config *settings.Config) {
		config.Rules, config.GRPC, config.Demo = []string{rules}, "127.0.0.1:0", "demo"
		config.Store, config.StoreTimeout = redis.URL(), time.Minute
		config.TrustedProxies, config.AuthDomain = []string{"127.0.0.0/8"}, "demo"
		config.OTLP.Endpoint = c.GRPC
	})
	const check = `{"domain": "demo", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`
	s.do(http.MethodPost, "http", "/v1/check", check, "Traceparent", parentOf(1, 1))
	s.askAuth("", http.Header{
		"Traceparent": {parentOf(2, 1)}, "X-Original-Uri": {"/"}, "X-Original-Method": {"GET"}, "X-Forwarded-For": {"192.0.2.7"},
	})
	_, err := programs.DialRLS(t, s.Addr("grpc"), nil).Ask(programs.WithTrace(t.Context(), parentOf(3, 1)), "demo", "user=alice")
	testkit.Must(t, err)
	s.do(http.MethodGet, "http", "/demo", "", "Traceparent", parentOf(4, 1))
	s.do(http.MethodPost, "http", "/json", `{"domain": "demo", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`, "Traceparent", parentOf(5, 1))
	s.do(http.MethodPost, "http", "/v1/check", check, "Traceparent", parentOf(6, 0))
	s.do(http.MethodPost, "http", "/v1/check", check)
	s.Stop(context.Background()) // sends what is left

	trips := map[string]int{} // round trips by the decision
	for _, span := range c.Spans() {
		if span.Name == "stint.store" {
			trips[span.Parent]++
			if span.Attributes["db.system.name"] != "redis" || span.Kind != "client" {
				t.Errorf("the span of the store: %+v", span)
			}
		}
	}
	var decisions []string
	for _, span := range c.Spans() {
		if span.Name == "stint.decide" {
			decisions = append(decisions, fmt.Sprintf("%s %s %s %d", span.Parent, span.Attributes["stint.rule"], span.Attributes["stint.outcome"], trips[span.ID]))
		}
	}
	slices.Sort(decisions)
	want := []string{
		"0000000000000001 per user allowed 1", "0000000000000002 demo/remote_address allowed 1", "0000000000000003 per user allowed 1",
		"0000000000000004 demo/remote_address allowed 1", "0000000000000005 per user allowed 1",
	}
	if !slices.Equal(decisions, want) {
		t.Errorf("%q, want %q", decisions, want)
	}
	if got := fmt.Sprint(c.Metric("stint_requests_total")); !strings.Contains(got, "{map[verdict:denied] 2}") || !strings.Contains(got, "{map[verdict:allowed] 5}") {
		t.Errorf("the metric of requests is %v", got)
	}
	for _, key := range []string{"alice", "192.0.2.7"} {
		if strings.Contains(c.Text(), key) {
			t.Errorf("the collector has the key %s", key)
		}
	}
}

// Without an endpoint nothing is sent, and the limiter has no tracer.
func TestNoOTLP(t *testing.T) {
	s := start(t, func(*settings.Config) {})
	if s.otlp != nil {
		t.Error("an exporter without an endpoint")
	}
}
