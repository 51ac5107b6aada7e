package app

import (
	"net/http"
	"path/filepath"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

// askAuth calls /v1/auth as a proxy does, and returns the status.
func (s *service) askAuth(query string, header http.Header) int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.Addr("http")+"/v1/auth"+query, nil)
	testkit.Must(s.t, err)
	req.Header = header
	resp, err := client.Do(req)
	testkit.Must(s.t, err)
	testkit.Must(s.t, resp.Body.Close())
	return resp.StatusCode
}

// TestAuth: the settings change the answers to proxies.
func TestAuth(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "demo.yaml")
	write(t, rules, demoRules)
	s := start(t, func(c *settings.Config) {
		c.Rules, c.TrustedProxies = []string{rules}, []string{"127.0.0.0/8"}
		c.AuthDomain, c.AuthDeny = "demo", 403
	})
	question := http.Header{"X-Original-Uri": {"/"}, "X-Original-Method": {"GET"}, "X-Forwarded-For": {"192.0.2.7"}}
	for i, test := range []struct {
		query string
		want  int
	}{{"", 200}, {"", 200}, {"", 403}, {"?deny=401", 401}, {"?domain=other", 200}} {
		if got := s.askAuth(test.query, question); got != test.want {
			t.Errorf("question %d: %d, want %d", i, got, test.want)
		}
	}
	s.log.await(t, 0, "level=WARN", "wrong call of a proxy", "peer=127.0.0.1", `domain: no rules for`, "other")
	s.askAuth("", http.Header{})
	s.log.await(t, 0, "level=WARN", "wrong call of a proxy", "peer=127.0.0.1", "let the proxy set X-Original-URI")
}
