package examples

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// rolloutCallers is 1 for tests that run beside others.
var rolloutCallers = flag.Int("rollout.callers", 1, "how many callers ask at a time in TestRollOut; more than one do not wait between requests")

// endpoints is the file from which Envoy learns the ready nodes.
type endpoints struct {
	t    *testing.T
	path string
}

// set replaces the file.
func (e *endpoints) set(nodes ...*programs.Service) {
	e.t.Helper()
	var list []string
	for _, n := range nodes {
		_, port, _ := strings.Cut(n.GRPC, ":")
		list = append(list, fmt.Sprintf(`{"endpoint":{"address":{"socket_address":{"address":"127.0.0.1","port_value":%s}}}}`, port))
	}
	text := fmt.Sprintf(`{"resources":[{"@type":"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
		"cluster_name":"stint","endpoints":[{"lb_endpoints":[%s]}]}]}`, strings.Join(list, ","))
	testkit.Must(e.t, os.WriteFile(e.path+".new", []byte(text), 0o600))
	testkit.Must(e.t, os.Rename(e.path+".new", e.path))
}

// A roll-out in the order of the Helm chart (one node more, then one less, and the old one ends only
// some time after it left the endpoints) fails no request through Envoy, which here denies what Stint
// does not answer, and resets no counter.
func TestRollOut(t *testing.T) {
	t.Parallel()
	const limit = 300
	server, dir := testkit.StartRedis(t), t.TempDir()
	rules := filepath.Join(dir, "api.yaml")
	testkit.Must(t, os.WriteFile(rules, fmt.Appendf(nil, "domain: api\ndescriptors: [{key: user, rate_limit: {requests: %d, per: 8760h}}]\n", limit), 0o600))
	start := func() *programs.Service {
		return programs.Stint(t, "--rules", rules, "--store", server.URL(), "--store-timeout", "5s", "--drain-delay", "2s", "--drain-timeout", "20s")
	}
	ready := &endpoints{t, filepath.Join(dir, "endpoints.json")}
	old := start()
	ready.set(old)
	backend, address := programs.NewBackend(t), testkit.Address(t)
	words := envoyWords(map[string]string{"127.0.0.1:8000": address, "127.0.0.1:9000": backend.Addr, "100ms": "5s"})
	words["ENDPOINTS"] = ready.path
	envoy := startEnvoy(t, programs.Adapt(t, "proxies/testdata/rollout/envoy.yaml", words))
	envoy.Ready = programs.Listens(address)
	programs.Run(t, envoy)

	var sent, passed, denied, failed atomic.Int64
	stop := make(chan struct{})
	began := time.Now()
	var callers sync.WaitGroup
	caller := func(client *http.Client) {
		pause := 2 * time.Millisecond // steady traffic while nodes change
		if *rolloutCallers > 1 {
			pause = 0
		}
		for range 20_000 * *rolloutCallers {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			sent.Add(1)
			resp, err := client.Get("http://" + address + "/")
			if err != nil {
				failed.Add(1)
				continue
			}
			resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusTooManyRequests:
				denied.Add(1)
			default:
				failed.Add(1)
			}
		}
	}
	for range *rolloutCallers {
		client := programs.Client(t, "127.0.0.1") // with connections of its own
		callers.Go(func() { caller(client) })
	}
	more := func(n int64) {
		t.Helper()
		if *rolloutCallers > 1 {
			n *= 200
		}
		want := sent.Load() + n
		programs.Until(t, fmt.Sprintf("%d requests", n), func() bool { return sent.Load() >= want })
	}
	more(100)
	for range 2 {
		next := start() // maxSurge 1: its readiness probe has passed
		ready.set(old, next)
		more(50)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			old.Stop() // SIGTERM: it still accepts calls for the delay
		}()
		more(20)
		ready.set(next)
		<-ended
		more(50)
		old = next
	}
	close(stop)
	callers.Wait()
	t.Logf("%d sent, %.0f a second, %d passed, %d denied", sent.Load(), float64(sent.Load())/time.Since(began).Seconds(), passed.Load(), denied.Load())
	if failed.Load() > 0 || passed.Load() != min(limit, sent.Load()) {
		t.Errorf("of %d requests %d failed and %d passed, want 0 and %d", sent.Load(), failed.Load(), passed.Load(), min(limit, sent.Load()))
	}
}
