package app

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
	"stint/telemetry"
)

// TestEmbedded runs the service inside another program: without a listener, with the program's metrics,
// and with rule files that the program replaces.
func TestEmbedded(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.yaml"), filepath.Join(dir, "second.yaml")
	write(t, first, rulesOf(3))
	write(t, second, rulesOf(5))
	log := new(sink)
	config := settings.Default()
	config.HTTP, config.GRPC, config.Admin, config.Embedded = "", "", "", true
	config.Rules, config.Output, config.Collectors = []string{first}, log, new(telemetry.Collectors)
	s, err := New(config)
	testkit.Must(t, err)
	testkit.Must(t, s.Start(t.Context()))
	defer s.Stop(t.Context())
	limit := func() int64 {
		var v limiter.Verdict
		req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "x"}}, Cost: 1}}}
		testkit.Must(t, s.Limiter().Decide(t.Context(), &req, &v))
		return v.Limit
	}
	if got := limit(); got != 3 || !s.Ready() {
		t.Fatalf("limit %d, ready %t, want 3 and true", got, s.Ready())
	}
	if err := s.UseRules([]string{filepath.Join(dir, "none.yaml")}, "test"); err == nil || limit() != 3 {
		t.Errorf("a missing file: %v, limit %d", err, limit())
	}
	testkit.Must(t, s.UseRules([]string{second}, "test"))
	if got := limit(); got != 5 {
		t.Errorf("limit %d with the second file, want 5", got)
	}
	at := log.size()
	write(t, first, rulesOf(7)) // no longer used
	write(t, second, rulesOf(6))
	log.await(t, at, "rules loaded", "files changed")
	if got := limit(); got != 6 {
		t.Errorf("limit %d after the second file changed, want 6", got)
	}

	w := httptest.NewRecorder()
	s.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
	if text := w.Body.String(); !strings.Contains(text, "stint_reloads_total") || strings.Contains(text, "go_goroutines") {
		t.Errorf("/metrics has not the metrics of the service alone: %s", text)
	}
}
