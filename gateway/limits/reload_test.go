package limits_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

const reloadRules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: address, requests: 1000000, per: 8760h}
    descriptors: [{key: path, rate_limit: {requests: 1000000, per: 8760h}}]
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`

// reloadSite has a place for the number of a reload, so that each is another configuration.
const reloadSite = `
{
	GLOBAL
	metrics
	stint {
		rules DIR/%[2]s
		store %[3]s
	}
}
http://ADDRESS {
	header X-Load %[1]d
	stint_early api
	stint api
	respond ok
}
`

// resources are what must stay constant over reloads.
type resources struct{ files, goroutines, series int }

func (g *gateway) resources() (r resources) {
	g.T.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Process.Pid))
	testkit.Must(g.T, err)
	r.files = len(files)
	var metrics string
	testkit.Until(g.T, "metrics are read", func() bool { // Caddy's admin listener closes connections while it is replaced
		resp, err := client.Get("http://" + g.admin + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		metrics = string(body)
		return err == nil
	})
	found := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`).FindStringSubmatch(metrics)
	if found == nil {
		g.T.Fatalf("no goroutines in %s", metrics)
	}
	r.goroutines, _ = strconv.Atoi(found[1])
	r.series = strings.Count(metrics, "\nstint_")
	return r
}

// settled returns the resources once no request is open: when they are at most these, or after 10 s. With the zero
// resources it returns what stays the same for 3 s.
func (g *gateway) settled(most resources) (r resources) {
	same := 0
	for range 50 {
		before := r
		if r = g.resources(); r.files <= most.files && r.goroutines <= most.goroutines {
			return r
		}
		if same++; r != before {
			same = 0
		}
		if same >= 15 && most == (resources{}) {
			return r
		}
		time.Sleep(200 * time.Millisecond) // servers of old configurations end by themselves
	}
	return r
}

// reloads is how often TestReloads loads a configuration.
func reloads() int {
	if *long {
		return 1000
	}
	return 50
}

// TestReloads is A-2: while requests arrive, Caddy loads many configurations. No request fails, no
// count is lost, and sockets, goroutines and series stay constant. Connections that a reload breaks are
// those that bare Caddy breaks.
func TestReloads(t *testing.T) {
	bare := newGateway(t, nil)
	text := func(n int) string {
		return fmt.Sprintf("{\n\tGLOBAL\n}\nhttp://ADDRESS {\n\theader X-Load %d\n\trespond ok\n}\n", n)
	}
	bare.Write("Caddyfile", text(0))
	bare.Run()
	l := load(bare, 4)
	for n := range reloads() {
		bare.load(text(n + 1))
	}
	sent, broken := l.end(t), l.again.Load()
	bare.Stop()
	t.Logf("bare Caddy: %d requests over %d reloads, %d sent again", sent, reloads(), broken)
	for _, tt := range []struct {
		name  string
		store func(t *testing.T) string
	}{
		{"memory", func(*testing.T) string { return "memory" }},
		// A store that is late on a busy machine is not what this tests.
		{"redis", func(t *testing.T) string { return testkit.StartRedis(t).URL() + "\n\t\tstore_timeout 10s" }},
	} {
		t.Run(tt.name, func(t *testing.T) { testReloads(t, tt.store(t), broken) })
	}
}

// testReloads tests reloads with a store. broken is how many requests bare Caddy broke.
func testReloads(t *testing.T, store string, broken int64) {
	g := newGateway(t, map[string]string{"a.yaml": reloadRules, "b.yaml": reloadRules + "# another file\n    - actions: [{remote_address: {}}, {path: {}}]\n"})
	text := func(n int) string { return fmt.Sprintf(reloadSite, n, []string{"a.yaml", "b.yaml"}[n%2], store) }
	g.Write("Caddyfile", text(0))
	g.Run()
	warm := load(g, 4)
	warm.end(t)
	for n := 1; n < 3; n++ { // both rule files
		g.load(text(n))
	}
	before := g.settled(resources{})
	l := load(g, 4)
	for n := range reloads() {
		g.load(text(n + 3))
	}
	sent := l.end(t) + warm.passed.Load()
	after := g.settled(before)
	if n := g.used("address", home); n != sent {
		t.Errorf("%d units used by %d requests", n, sent)
	}
	const slack = 8 // a connection to Redis has a file and four goroutines; a leak at each reload would be far more
	if after.files > before.files+slack || after.goroutines > before.goroutines+slack || after.series != before.series {
		t.Errorf("before %+v, after %d reloads %+v", before, reloads(), after)
	}
	if again := l.again.Load(); again > 2*broken+int64(reloads()) { // at most one for each of the 4 connections and reloads
		t.Errorf("%d requests were sent again, %d with bare Caddy", again, broken)
	}
	t.Logf("%d requests over %d reloads, %d sent again; before %+v, after %+v", sent, reloads(), l.again.Load(), before, after)
}

// load loads a Caddyfile into the running process.
func (g *gateway) load(text string) {
	g.T.Helper()
	g.Write("Caddyfile", text)
	a := g.ask(http.MethodPost, "/load", g.Read("Caddyfile"), "Content-Type", "text/caddyfile")
	if a.status != http.StatusOK {
		g.T.Fatalf("load: %d %s", a.status, a.body)
	}
}

// loader sends requests until it is ended.
type loader struct {
	passed  atomic.Int64
	again   atomic.Int64 // requests that were sent again
	faults  chan string
	stop    context.CancelFunc
	clients sync.WaitGroup
}

func load(g *gateway, clients int) *loader {
	ctx, stop := context.WithCancel(g.T.Context())
	l := &loader{faults: make(chan string, 100), stop: stop}
	first := make(chan struct{}, clients)
	for range clients {
		l.clients.Go(func() { l.run(ctx, g.address, first) })
	}
	for range clients {
		<-first
	}
	return l
}

// run sends requests on connections that stay open. A server that ends closes connections that it sees
// idle, even if a request is on its way to it, with Stint as without. Such a request has no answer and
// is sent again, as RFC 9110 says for GET; that it was not served, the counts show.
func (l *loader) run(ctx context.Context, address string, first chan<- struct{}) {
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	for n := 0; ctx.Err() == nil; n++ {
		resp, err := c.Get("http://" + address + "/")
		if n == 0 {
			first <- struct{}{}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			l.again.Add(1)
			continue
		}
		if err != nil {
			l.fault(err.Error())
			continue
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			l.fault(fmt.Sprint(resp.StatusCode, err))
			continue
		}
		l.passed.Add(1)
	}
}

func (l *loader) fault(text string) {
	select {
	case l.faults <- text:
	default:
	}
}

// end ends the load and returns how many requests passed.
func (l *loader) end(t *testing.T) int64 {
	t.Helper()
	l.stop()
	l.clients.Wait()
	close(l.faults)
	for f := range l.faults {
		t.Error("a request failed:", f)
	}
	return l.passed.Load()
}

// TestRulesChange checks that other rules are a reload of the running service, that those of a
// configuration that does not start do not stay in force, and that another store starts anew.
func TestRulesChange(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer taken.Close()
	g := newGateway(t, map[string]string{
		"a.yaml": rules,
		"b.yaml": strings.ReplaceAll(rules, "requests: 10", "requests: 20"),
	})
	text := func(file, more string) string {
		return "{\n\tGLOBAL\n\tstint {\n\t\trules DIR/" + file + "\n" + more + "\t}\n}\nhttp://ADDRESS {\n\tstint api\n\trespond ok\n}\n"
	}
	limit := func() string { return g.get("/").header.Get("X-Ratelimit-Limit") }
	g.Write("Caddyfile", text("a.yaml", ""))
	g.Run()
	limit()
	g.load(text("b.yaml", ""))
	g.get("/")
	if n := g.used("address", home); n != 2 {
		t.Errorf("%d units used, want 2 over a change of the rules", n)
	}
	if a := g.get("/"); !strings.Contains(a.header.Get("Ratelimit-Policy"), "q=20") {
		t.Errorf("the new rules are not in force: %v", a.header)
	}

	g.Write("Caddyfile", text("a.yaml", "")+"http://"+taken.Addr().String()+" {\n\trespond ok\n}\n")
	if a := g.ask(http.MethodPost, "/load", g.Read("Caddyfile"), "Content-Type", "text/caddyfile"); a.status == http.StatusOK {
		t.Fatalf("a configuration with an address in use was loaded: %+v", a)
	}
	if a := g.get("/"); !strings.Contains(a.header.Get("Ratelimit-Policy"), "q=20") {
		t.Errorf("the rules of a configuration that did not start are in force: %v", a.header)
	}
	if n := g.used("address", home); n != 4 {
		t.Errorf("%d units used, want 4", n)
	}

	g.Write("b.yaml", strings.ReplaceAll(rules, "requests: 10", "requests: 30"))
	g.Await("files changed")
	if a := g.get("/"); !strings.Contains(a.header.Get("Ratelimit-Policy"), "q=30") {
		t.Errorf("a change of the file in force is not seen: %v", a.header)
	}

	g.load(text("b.yaml", "\t\tmemory 8MiB\n"))
	g.get("/")
	if n := g.used("address", home); n != 1 {
		t.Errorf("%d units used in a new store, want 1", n)
	}
	g.Await(`"msg":"stopped"`) // the old service
}

// TestState checks that counts in a file last over the end of the process, and that a change of other
// settings is refused while the running service uses the file.
func TestState(t *testing.T) {
	text := func(more string) string {
		return "{\n\tGLOBAL\n\tstint {\n\t\trules DIR/rules.yaml\n\t\tstate DIR/counts\n" + more + "\t}\n}\nhttp://ADDRESS {\n\tstint api\n\trespond ok\n}\n"
	}
	g := start(t, text(""), map[string]string{"rules.yaml": rules})
	g.get("/")
	g.Write("Caddyfile", text("\t\tmemory 8MiB\n"))
	out, err := g.reload()
	if err == nil || !strings.Contains(out, "counts is in use") || !strings.Contains(out, "restart the gateway") || !strings.Contains(out, "the running configuration stays in force") {
		t.Errorf("reload: %v\n%s", err, out)
	}
	g.get("/")
	g.Stop()
	if _, err := os.Stat(filepath.Join(g.Dir, "counts")); err != nil {
		t.Fatal(err)
	}
	g.Run()
	if n := g.used("address", home); n != 2 {
		t.Errorf("%d units used after a restart, want 2", n)
	}
}
