package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
)

const policies = `
domain: api
descriptors:
  - key: free
    rate_limit: {per: 366d, requests: 5}
  - key: login
    rate_limit: {per: 366d, requests: 5, on_store_failure: deny}
  - key: part
    rate_limit: {per: 366d, requests: 20, on_store_failure: local, local_share: 20%, nodes: 2}
`

// check makes a request for one rule, and returns the body of the answer.
func (s *service) check(key string) string { return s.checkUser(key, "x") }

func (s *service) checkUser(key, user string) string {
	s.t.Helper()
	status, _, body := s.do(http.MethodPost, "http", "/v1/check",
		fmt.Sprintf(`{"domain": "api", "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, key, user))
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d: %s", key, status, body)
	}
	return body
}

// While Redis is frozen each rule follows its policy, and answers, health and metrics show it; no
// request fails.
func TestFrozenRedis(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, policies)
	s := start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout = []string{file}, server.URL(), time.Second
	})
	for _, key := range []string{"free", "login", "part"} {
		if body := s.check(key); !strings.Contains(body, `"allowed":true`) || strings.Contains(body, `"degraded":true`) {
			t.Errorf("%s: %s", key, body)
		}
	}
	server.Freeze()
	for _, step := range []struct{ key, allowed, limit string }{
		{"free", "true", "null"},
		{"login", "false", "5"},
		{"part", "true", "2"},
		{"part", "true", "2"},
		{"part", "false", "2"},
		{"free", "true", "null"},
		{"login", "false", "5"},
	} {
		body := s.check(step.key)
		for _, want := range []string{`"degraded":true`, `"allowed":` + step.allowed, `"limit":` + step.limit} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %s in %s", step.key, want, body)
			}
		}
	}
	at := s.log.await(t, 0, "level=ERROR", "the store cannot be used; each rule follows its on_store_failure", server.Addr, "hint=")
	if status, _, ready := s.get("admin", "/readyz"); status != http.StatusOK || strings.Contains(ready, `"error":""`) {
		t.Errorf("/readyz: %d %s", status, ready)
	}
	_, _, metrics := s.get("admin", "/metrics")
	for _, want := range []string{
		"stint_store_available 0", "stint_degraded_total 7", `stint_rule_degraded_total{domain="api",rule="api/part"} 3`,
		`stint_store_failures_total{reason="timeout"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics without %s", want)
		}
	}
	server.Thaw()
	s.log.await(t, at, "the store is back") // without any request
	for _, key := range []string{"free", "login", "part"} {
		if body := s.check(key); strings.Contains(body, `"degraded":true`) {
			t.Errorf("%s: %s", key, body)
		}
	}
	if _, _, ready := s.get("admin", "/readyz"); !strings.Contains(ready, `"error":""`) {
		t.Errorf("/readyz: %s", ready)
	}
}

// With degraded-header a header marks decisions of policies, and no others.
func TestDegradedHeader(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	server.Stop()
	var files []string
	for domain, policy := range map[string]string{"open": "allow", "shut": "deny"} {
		file := filepath.Join(t.TempDir(), domain+".yaml")
		write(t, file, fmt.Sprintf(`
domain: %s
http:
  rate_limits:
    - actions: [{remote_address: {}}]
descriptors:
  - key: remote_address
    rate_limit: {per: 366d, requests: 1000, on_store_failure: %s}
`, domain, policy))
		files = append(files, file)
	}
	s := start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout = files, server.URL(), patient
		c.TrustedProxies, c.Demo, c.DegradedHeader = []string{"127.0.0.0/8"}, "open", "X-Degraded"
	})
	asked := http.Header{"X-Original-Uri": {"/"}, "X-Original-Method": {"GET"}, "X-Forwarded-For": {"192.0.2.7"}}
	ask := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr("http")+path, nil)
		testkit.Must(t, err)
		req.Header = asked
		resp, err := client.Do(req)
		testkit.Must(t, err)
		testkit.Must(t, resp.Body.Close())
		return resp.StatusCode, resp.Header.Get("X-Degraded")
	}
	for path, want := range map[string]int{"/v1/auth?domain=open": 200, "/v1/auth?domain=shut": 503, "/demo": 200} {
		if status, mark := ask(path); status != want || mark != "true" {
			t.Errorf("%s without Redis: %d, %q", path, status, mark)
		}
	}
	server.Restart()
	s.log.await(t, 0, "the store is back")
	testkit.Until(t, "Redis decides", func() bool { _, mark := ask("/demo"); return mark == "" })
	for _, path := range []string{"/v1/auth?domain=open", "/v1/auth?domain=shut"} {
		if status, mark := ask(path); status != 200 || mark != "" {
			t.Errorf("%s with Redis: %d, %q", path, status, mark)
		}
	}
}
