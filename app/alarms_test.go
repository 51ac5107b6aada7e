package app

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

// TestAlarms: GET /v1/alarms and /metrics show what is silently wrong, and nothing while all is well.
func TestAlarms(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, rules, "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: 10, per: 1h}\n")
	s := start(t, func(c *settings.Config) { c.Rules, c.TrustedProxies = []string{rules}, []string{"192.0.2.0/24"} })
	kinds := func() (kinds []string) {
		t.Helper()
		s.alarms.Check(t.Context())
		status, _, body := s.do(http.MethodGet, "admin", "/v1/alarms", "")
		var answer struct{ Alarms []struct{ Kind, Text string } }
		testkit.Must(t, json.Unmarshal([]byte(body), &answer))
		if status != http.StatusOK || !strings.HasPrefix(body, `{"alarms":[`) {
			t.Errorf("status %d: %s", status, body)
		}
		for _, a := range answer.Alarms {
			kinds = append(kinds, a.Kind)
		}
		return kinds
	}
	s.ask(t, "user=1")
	if found := kinds(); len(found) != 0 {
		t.Errorf("active are %v", found)
	}
	s.do(http.MethodPost, "http", "/v1/check", `{"domain": "apl", "descriptors": [{"entries": [{"key": "user", "value": "1"}]}]}`)
	s.askAuth("?domain=api", http.Header{"X-Forwarded-For": {"198.51.100.1"}})
	if found := strings.Join(kinds(), " "); found != "untrusted_forwarded unknown_domain" {
		t.Errorf("active are %s", found)
	}
	if n := s.metric(`stint_alarms{kind="unknown_domain"}`); n != 1 {
		t.Errorf("the metric is %v", n)
	}
	for range 1100 { // of one user, as behind a proxy that is not known
		s.ask(t, "user=1")
	}
	testkit.Until(t, "all requests of the rule have one key", func() bool {
		return strings.Join(kinds(), " ") == "one_key untrusted_forwarded unknown_domain"
	})
	if status, _, _ := s.do(http.MethodPost, "admin", "/v1/alarms", "{}"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", status)
	}
}
