package app

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/records"
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

// Rule files may be replaced from several places at once, while plans change and the page reads them: each
// replacement is whole, and the files that were used last are those that are watched.
func TestUseRulesAtOnce(t *testing.T) {
	dir := t.TempDir()
	files := make([]string, 4)
	for i := range files {
		files[i] = filepath.Join(dir, strconv.Itoa(i)+".yaml")
		write(t, files[i], rulesOf(10+i))
	}
	log := new(sink)
	config := settings.Default()
	config.HTTP, config.GRPC, config.Admin, config.Embedded = "", "", "", true
	config.Rules, config.Output, config.Collectors = files[:1], log, new(telemetry.Collectors)
	config.Records = filepath.Join(dir, "records.db")
	s, err := New(config)
	testkit.Must(t, err)
	testkit.Must(t, s.Start(t.Context()))
	defer s.Stop(t.Context())
	var all sync.WaitGroup
	for i := range files {
		all.Go(func() {
			for range 5 {
				if err := s.UseRules(files[i:i+1], "test"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		if err := s.Reload("test"); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() {
		edit := records.Edit{Put: records.Plan{Name: "gold", Limits: []byte(`{}`)}}
		if _, err := s.Records().Apply(t.Context(), records.Change{Edits: []records.Edit{edit}}, time.Now()); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	last := s.Limiter().Table().Rules()[0].Limit.Spec().Requests
	at := log.size()
	write(t, files[last-10], rulesOf(20))
	log.await(t, at, "rules loaded", "files changed")
	if got := s.Limiter().Table().Rules()[0].Limit.Spec().Requests; got != 20 {
		t.Errorf("a limit of %d after the last file changed, want 20", got)
	}
}
