package app

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// Defects of envoyproxy/ratelimit that only a whole service can show to be fixed; server/rls tests
// the others.

// D3, with its health of 200: with a frozen Redis a call hung for ever, no policy decided, and
// nothing reported it.
func TestDefectD3FrozenStore(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `
domain: api
descriptors:
  - {key: strict, rate_limit: {unit: hour, requests_per_unit: 5, on_store_failure: deny}}
  - {key: easy, rate_limit: {unit: hour, requests_per_unit: 5}}
`)
	s := start(t, func(c *settings.Config) {
		c.Rules, c.Store, c.StoreTimeout, c.GRPC = []string{file}, server.URL(), 500*time.Millisecond, "127.0.0.1:0"
	})
	c := programs.DialRLS(t, s.Addr("grpc"), nil)
	if answer, err := c.Ask(t.Context(), "api", "strict=1"); err != nil || answer.Statuses[0].Remaining != 4 {
		t.Fatalf("%+v, %v", answer, err)
	}
	server.Freeze()
	defer server.Thaw()
	for key, want := range map[string]int{"strict": http.StatusTooManyRequests, "easy": http.StatusOK} {
		answer, err := c.Ask(t.Context(), "api", key+"=1") // no deadline of its own
		if err != nil || answer.Over != (want != http.StatusOK) {
			t.Errorf("%s: %+v, %v", key, answer, err)
		}
		status, _, body := s.do(http.MethodPost, "http", "/json", `{"domain":"api","descriptors":[{"entries":[{"key":"`+key+`","value":"1"}]}]}`)
		if status != want {
			t.Errorf("%s: status %d, %s", key, status, body)
		}
	}
	status, _, body := s.get("admin", "/readyz")
	if status != http.StatusOK || strings.Contains(body, `"error":""`) {
		t.Errorf("readyz: %d %s", status, body)
	}
}

// D13: with a broken rule file at the start the service was healthy and answered every request with
// an error.
func TestDefectD13BrokenRulesAtStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, badRules)
	config := settings.Default()
	config.Rules = []string{file}
	if a, err := New(config); err == nil || a != nil || !strings.HasPrefix(err.Error(), file+":3: ") {
		t.Errorf("%v", err)
	}
}
