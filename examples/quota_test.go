package examples

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// startQuota starts Envoy, with Stint instead of envoyproxy/ratelimit behind it.
func startQuota(t *testing.T) *setup {
	t.Helper()
	s := &setup{t: t, backend: programs.NewBackend(t)}
	s.stint = programs.Stint(t, "--envoy-env", "--envoy-stats", "--rls-metadata", "--rules", "proxies/testdata/envoy-quota-rules")
	address := testkit.Address(t)
	words := map[string]string{
		"127.0.0.1:8000": address, "127.0.0.1:8081": s.stint.GRPC, "127.0.0.1:9000": s.backend.Addr,
		"100ms": fmt.Sprintf("%gs", deadline.Seconds()),
	}
	command := startEnvoy(t, programs.Adapt(t, "proxies/testdata/envoy-quota/envoy.yaml", envoyWords(words)))
	command.Ready = programs.Listens(address)
	programs.Run(t, command)
	s.url = "http://" + address
	return s
}

// totalHits matches the metric of a limit's hits.
var totalHits = regexp.MustCompile(`(?m)^ratelimit_service_rate_limit_total_hits\{domain="quota",key1="(\w+)",key2=""\} (\d+)$`)

// charged waits until a limit has counted want hits: Envoy reports them after a response has ended,
// and the client does not wait for that.
func (s *setup) charged(limit string, want int) {
	s.t.Helper()
	programs.Until(s.t, fmt.Sprintf("%d hits of %s", want, limit), func() bool {
		resp, err := http.Get("http://" + s.stint.Admin + "/metrics")
		testkit.Must(s.t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		testkit.Must(s.t, err)
		for _, found := range totalHits.FindAllStringSubmatch(string(text), -1) {
			if hits, err := strconv.Atoi(found[2]); found[1] == limit && err == nil && hits == want {
				return true
			}
		}
		return false
	})
}

// With a quota of 10 tokens, a request passes as long as at most 10 were used: using exactly the
// quota does not close it, and usage beyond it is charged in full.
func TestEnvoyTokenQuota(t *testing.T) {
	t.Parallel()
	s := startQuota(t)
	client := programs.Client(t, "127.0.0.7")
	const cost = len("GET /alone")
	for i := range 2 {
		if a := s.get(client, "/alone"); a.status != 200 || len(a.body) != cost {
			t.Fatalf("request %d: %d %q", i, a.status, a.body)
		}
		s.charged("tokens_alone", (i+1)*cost)
	}
	for i := range 3 {
		if a := s.get(client, "/alone"); a.status != 429 {
			t.Errorf("request %d after the quota was used up: %d", i, a.status)
		}
	}
	if n := len(s.backend.Seen()); n != 2 {
		t.Errorf("the backend got %d requests", n)
	}
}

// The metadata names the first of two quotas that is not used up. Envoy forwards the name, and
// charges that quota after the response. When both are used up a request is denied.
func TestEnvoyTokenQuotas(t *testing.T) {
	t.Parallel()
	s := startQuota(t)
	client := programs.Client(t, "127.0.0.7")
	want := []string{"small", "small", "large", "large", "large"}
	var got []string
	hits := map[string]int{}
	for range want {
		if a := s.get(client, "/models"); a.status != 200 {
			t.Fatalf("after %q: %d", got, a.status)
		}
		for _, r := range s.backend.Seen() {
			model := r.Header.Get("X-Model")
			got = append(got, model)
			hits[model]++
			s.charged("model_"+model, hits[model])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("served by %q, want %q", got, want)
	}
	if a := s.get(client, "/models"); a.status != 429 || len(s.backend.Seen()) != 0 {
		t.Errorf("when both are used up: %d", a.status)
	}
}
