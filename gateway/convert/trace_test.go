package convert_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "stint/gateway"
	"stint/gateway/convert"
	"stint/internal/testkit"
)

// A recorded request, and the status that caddy-ratelimit gave it.
type recorded struct {
	at                               time.Duration
	method, target, client, user, id string
	status                           int
}

// trace reads a recorded trace.
func trace(t *testing.T, name string) []recorded {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata/traces", name+".trace"))
	testkit.Must(t, err)
	defer file.Close()
	var all []recorded
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var r recorded
		var at int64
		_, err := fmt.Sscan(lines.Text(), &at, &r.method, &r.target, &r.client, &r.user, &r.id, &r.status)
		testkit.Must(t, err)
		r.at = time.Duration(at) * time.Microsecond
		all = append(all, r)
	}
	if len(all) != 1200 {
		t.Fatalf("%s has %d requests", name, len(all))
	}
	return all
}

func (r *recorded) request() *http.Request {
	q := httptest.NewRequest(r.method, r.target, nil)
	q.RemoteAddr = r.client + ":1234"
	if r.user != "-" {
		q.Header.Set("X-User", r.user)
	}
	if r.id != "-" {
		q.AddCookie(&http.Cookie{Name: "sid", Value: r.id})
	}
	return q
}

// converted converts a Caddyfile and returns its server, with the app stint started.
func converted(t *testing.T, text []byte) *caddyhttp.Server {
	t.Helper()
	dir := t.TempDir()
	files := convert.Files{Caddyfile: filepath.Join(dir, "Caddyfile"), Store: "memory"}
	testkit.Must(t, os.WriteFile(files.Caddyfile, text, 0o600))
	var out, notes strings.Builder
	testkit.Must(t, files.Convert(&out, &notes))
	made, err := os.ReadFile(files.Caddyfile + ".stint")
	testkit.Must(t, err)
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(made, map[string]any{"filename": files.Caddyfile})
	testkit.Must(t, err)
	var config caddy.Config
	testkit.Must(t, json.Unmarshal(adapted, &config))
	ctx, err := caddy.ProvisionContext(&config)
	testkit.Must(t, err)
	limits, err := ctx.App("stint")
	testkit.Must(t, err)
	testkit.Must(t, limits.(caddy.App).Start())
	t.Cleanup(func() {
		testkit.Must(t, limits.(caddy.App).Stop())
		testkit.Must(t, limits.(caddy.CleanerUpper).Cleanup())
	})
	web, err := ctx.App("http")
	testkit.Must(t, err)
	return web.(*caddyhttp.App).Servers["srv0"]
}

// play sends a trace to the converted Caddyfile, each request at its time, and returns the statuses.
func play(t *testing.T, name string) (got []int, all []recorded) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/traces", name+".caddyfile"))
	testkit.Must(t, err)
	server := converted(t, text)
	all = trace(t, name)
	synctest.Test(t, func(*testing.T) {
		start := time.Now()
		for i := range all {
			time.Sleep(all[i].at - time.Since(start)) // the time is virtual
			w := httptest.NewRecorder()
			server.ServeHTTP(w, all[i].request())
			got = append(got, w.Code)
		}
	})
	return got, all
}

// Where no request is in two zones, every verdict is that of caddy-ratelimit.
func TestSameVerdicts(t *testing.T) {
	for _, name := range []string{"one_zone", "disjoint_zones"} {
		t.Run(name, func(t *testing.T) {
			got, all := play(t, name)
			for i := range all {
				if got[i] != all[i].status {
					t.Fatalf("request %d, %+v: %d", i+1, all[i], got[i])
				}
			}
		})
	}
}

// caddy-ratelimit charges zones one after another, so a denial leaves the zones before it charged.
// Stint charges all zones of a request or none. Nothing else differs: a model of the first gives the
// recorded verdicts, and the same model that charges all or none gives Stint's.
func TestOverlappingZones(t *testing.T) {
	got, all := play(t, "overlapping_zones")
	theirs, ours := model{}, model{}
	differ := 0
	for i, r := range all {
		if want := theirs.decide(r, false); want != r.status {
			t.Fatalf("request %d, %+v: the model of caddy-ratelimit says %d", i+1, r, want)
		}
		if want := ours.decide(r, true); want != got[i] {
			t.Fatalf("request %d, %+v: %d, want %d", i+1, r, got[i], want)
		}
		if got[i] != r.status {
			differ++
		}
	}
	t.Logf("%d of %d verdicts differ from those of caddy-ratelimit", differ, len(all))
	if differ == 0 {
		t.Error("no verdict differs: the trace does not show the difference")
	}
}

// A key costs less memory than with caddy-ratelimit, however many events its zone has.
func TestMemory(t *testing.T) {
	file, err := os.ReadFile("testdata/traces/memory.txt")
	testkit.Must(t, err)
	for line := range strings.Lines(string(file)) {
		var events, theirs int64
		_, err := fmt.Sscan(line, &events, &theirs)
		testkit.Must(t, err)
		server := converted(t, fmt.Appendf(nil, "{\n\tadmin off\n}\nhttp://:8080 {\n\trate_limit {\n\t\tzone m%[1]d {\n\t\t\tkey {header.X-User}\n\t\t\tevents %[1]d\n\t\t\twindow 1h\n\t\t}\n\t}\n\trespond ok\n}\n", events))
		send := func(name string, keys int64) {
			for i := range keys {
				r := recorded{method: http.MethodGet, target: "/", client: "192.0.2.1", user: fmt.Sprint(name, i), id: "-"}
				w := httptest.NewRecorder()
				if server.ServeHTTP(w, r.request()); w.Code != http.StatusOK {
					t.Fatal(w.Code)
				}
			}
		}
		const keys = 5000
		send("first", keys) // what the first requests allocate once
		before := heap()
		send("key", keys)
		ours := (heap() - before) / keys
		t.Logf("events %d: %d bytes a key, caddy-ratelimit %d", events, ours, theirs)
		if ours <= 0 || ours >= theirs || ours > 1000 {
			t.Errorf("events %d: %d bytes a key, caddy-ratelimit %d", events, ours, theirs)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC() // twice, for what pools keep over one
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A model is the times of admitted requests, by zone and key, of overlapping_zones.caddyfile.
type model map[string][]time.Duration

// decide returns the status of a request. With atomic all zones are charged or none, else those before
// the one that denies. The zones are in the order of caddy-ratelimit: that with the highest rate first.
func (m model) decide(r recorded, atomic bool) int {
	type zone struct {
		key    string
		events int
		window time.Duration
	}
	zones := []zone{{"everyone", 60, 2 * time.Second}, {"client " + r.client, 8, time.Second}}
	if r.target == "/login" {
		zones = append(zones, zone{"login " + r.user, 3, 5 * time.Second})
	}
	var charged []string
	for _, z := range zones {
		n := 0
		for _, at := range m[z.key] {
			if r.at-at < z.window {
				n++
			}
		}
		if n >= z.events {
			if !atomic {
				m.charge(charged, r.at)
			}
			return http.StatusTooManyRequests
		}
		charged = append(charged, z.key)
	}
	m.charge(charged, r.at)
	return http.StatusOK
}

func (m model) charge(keys []string, at time.Duration) {
	for _, key := range keys {
		m[key] = append(m[key], at)
	}
}
