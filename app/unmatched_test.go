package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// Unmatched requests show in answers and in the log, and with unmatched: deny they are denied over
// every protocol.
func TestUnmatched(t *testing.T) {
	for _, deny := range []bool{false, true} {
		t.Run(fmt.Sprint("deny ", deny), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.yaml")
			write(t, file, `domain: api
exempt:
  - {key: user, values: [root]}
descriptors:
  - key: user
    rate_limit: {requests: 1000, per: 366d}
  - {key: user, value: friend}
  - {key: user, value: free, rate_limit: {unlimited: true}}
  - {key: plan, value: pro, rate_limit: {requests: 1000, per: 366d}}
http:
  rate_limits:
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
`)
			s := start(t, func(c *settings.Config) {
				c.Rules, c.GRPC, c.TrustedProxies, c.Demo = []string{file}, "127.0.0.1:0", []string{"127.0.0.1"}, "api"
				if deny {
					c.Unmatched = settings.UnmatchedDeny
				}
			})
			c := programs.DialRLS(t, s.Addr("grpc"), nil)
			for _, test := range []struct {
				domain, entries string
				matched         bool
			}{
				{"api", "user=a", true},
				{"api", "user=friend", true},
				{"api", "user=free", true},
				{"api", "user=root", true},
				{"api", "plan=pro", true},
				{"api", "plan=gold", false},
				{"api", "usr=a", false},
				{"apy", "user=a", false},
			} {
				key, value, _ := strings.Cut(test.entries, "=")
				descriptors := fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, test.domain, key, value)
				want := test.matched || !deny
				_, _, body := s.do(http.MethodPost, "http", "/v1/check", descriptors)
				if strings.Contains(body, `"allowed":true`) != want || strings.Count(body, `"matched":false`) != map[bool]int{true: 0, false: 2}[test.matched] {
					t.Errorf("%s %s: check says %s", test.domain, test.entries, body)
				}
				if !want && strings.Count(body, `"rule":"","limit":null,"remaining":null,"retry_after_ms":-1`) != 2 {
					t.Errorf("%s %s: denied by %s", test.domain, test.entries, body)
				}
				if status, _, body := s.do(http.MethodPost, "http", "/json", descriptors); (status == http.StatusOK) != want {
					t.Errorf("%s %s: json says %d %s", test.domain, test.entries, status, body)
				}
				got, err := c.Ask(t.Context(), test.domain, test.entries)
				testkit.Must(t, err)
				if got.Over == want || got.Statuses[0].Over == want {
					t.Errorf("%s %s: rls says %+v", test.domain, test.entries, got)
				}
			}
			s.unmatchedHTTP(deny)
			_, _, body := s.do(http.MethodPost, "http", "/v1/check", `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}, {"entries": [{"key": "usr", "value": "a"}]}]}`)
			if !strings.Contains(body, `"allowed":true`) || strings.Count(body, `"matched":false`) != 1 {
				t.Errorf("one limit applies: %s", body)
			}
			log := s.log.String()
			for _, words := range []string{`domain=apy`, `domain=api key=usr`} {
				if n := strings.Count(log, words); n != 1 {
					t.Errorf("%d lines with %q:\n%s", n, words, log)
				}
			}
		})
	}
}

// unmatchedHTTP makes requests as proxies and clients do.
func (s *service) unmatchedHTTP(deny bool) {
	s.t.Helper()
	header := http.Header{"X-Original-Method": {"GET"}, "X-Original-Uri": {"/"}, "X-Forwarded-For": {"192.0.2.1"}}
	ok := map[bool]int{false: http.StatusOK, true: http.StatusTooManyRequests}[deny]
	for _, query := range []string{"?domain=apy", "?domain=api"} {
		if status := s.askAuth(query, header); status != ok {
			s.t.Errorf("auth of %s: %d, want %d", query, status, ok)
		}
	}
	known := header.Clone()
	known.Set("X-User", "a")
	if status := s.askAuth("?domain=api", known); status != http.StatusOK {
		s.t.Errorf("auth of a user: %d", status)
	}
	if status, answer, body := s.get("http", "/demo"); status != ok || answer.Get("Retry-After") != "" {
		s.t.Errorf("demo: %d %s, want %d", status, body, ok)
	}
}

// With envoy-env unmatched requests pass, and the log says so.
func TestUnmatchedInEnvoyEnv(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, rulesOf(3))
	s := start(t, func(c *settings.Config) {
		c.Rules, c.EnvoyEnv, c.Unmatched = []string{file}, true, settings.UnmatchedDeny
	})
	if _, _, body := s.do(http.MethodPost, "http", "/v1/check", `{"domain": "other", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}`); !strings.Contains(body, `"allowed":true`) {
		t.Error(body)
	}
	s.log.await(t, 0, "unmatched is ignored")
}
