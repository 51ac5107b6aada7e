package examples

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// askers are the proxies, most of which use GET /v1/auth.
var askers = []asker{
	{
		name: "nginx", file: "proxies/nginx/%s.conf", headers: true, closed: 503,
		start: func(t testing.TB, file string) programs.Command {
			args := []string{"-p", t.TempDir(), "-c", file}
			if os.Getuid() == 0 { // other users may not enter that folder
				args = append(args, "-g", "user root;")
			}
			return programs.Command{Path: programs.Binary(t, "nginx"), Args: args}
		},
	},
	{
		name: "caddy", file: "proxies/caddy/%s.Caddyfile", headers: true, body: true, closed: 503,
		words: map[string]string{"http://:8000": "http://:%s"},
		start: func(t testing.TB, file string) programs.Command {
			home := t.TempDir()
			return programs.Command{
				Path: programs.Binary(t, "caddy"), Args: []string{"run", "--config", file, "--adapter", "caddyfile"},
				Env: []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home},
			}
		},
	},
	{
		name: "haproxy", file: "proxies/haproxy/%s.cfg", headers: true, body: true, closed: 503,
		words: map[string]string{"abns@stint-auth": ""},
		start: func(t testing.TB, file string) programs.Command {
			return programs.Command{Path: programs.Binary(t, "haproxy"), Args: []string{"-f", file}, Dir: filepath.Dir(file)}
		},
	},
	{
		name: "traefik", file: "proxies/traefik/%s.yaml", body: true, closed: 504, stopped: 502,
		words: map[string]string{"127.0.0.1:8001": ""},
		start: func(t testing.TB, file string) programs.Command {
			return programs.Command{Path: programs.Binary(t, "traefik"), Args: []string{"--configFile=" + file}, Dir: filepath.Dir(file)}
		},
	},
	{name: "envoy", file: "proxies/envoy/auth-%s.yaml", headers: true, body: true, closed: 503, adapt: envoyWords, start: startEnvoy},
	{name: "envoy by gRPC", file: "proxies/envoy/ratelimit-%s.yaml", headers: true, rls: true, closed: 503, adapt: envoyWords, start: startEnvoy},
}

// asker is a proxy that asks Stint by GET /v1/auth, or by Envoy's rate limit service.
type asker struct {
	name  string
	file  string // open or closed for %s
	start func(t testing.TB, file string) programs.Command

	// words are further replacements in the file: by their value, with the port of the proxy for
	// %s; or, for special values, by a free address or a unique name.
	words map[string]string

	// adapt converts the common replacements to the syntax of the proxy; nil: unchanged.
	adapt func(words map[string]string) map[string]string

	// rls: the proxy uses Envoy's rate limit service, which has one status for refusals.
	rls bool

	// headers: an allowed response has the numbers of the limit. body: the client gets the body of
	// a refusal.
	headers, body bool

	// closed and stopped are the statuses of the form that fails closed: while Stint is frozen or
	// too slow, and while it is stopped; stopped 0 means the same as closed.
	closed, stopped int
}

// setup is one proxy in front of a backend, and a Stint that it asks.
type setup struct {
	asker
	t       *testing.T
	stint   *programs.Service
	backend *programs.Backend
	url     string
}

// deadline is the proxies' deadline in these tests: on a busy machine an answer may take longer
// than the 100 ms of the files.
const deadline = 3 * time.Second

// eachProxy runs a test for every proxy in the form that fails open, with which more could pass,
// and for a long run in the other form too.
func eachProxy(t *testing.T, test func(t *testing.T, s *setup)) {
	forms := []string{"open", "closed"}
	if testing.Short() {
		forms = forms[:1]
	}
	eachForm(t, forms, func(t *testing.T, s *setup, _ bool) { test(t, s) })
}

// eachForm runs a test for every proxy in some forms.
func eachForm(t *testing.T, forms []string, test func(t *testing.T, s *setup, open bool)) {
	for _, a := range askers {
		for _, form := range forms {
			t.Run(a.name+"/"+form, func(t *testing.T) {
				t.Parallel()
				test(t, start(t, a, form), form == "open")
			})
		}
	}
}

// start starts all of a setup; flags are for Stint.
func start(t *testing.T, a asker, form string, flags ...string) *setup {
	t.Helper()
	flags = append([]string{"--config", "proxies/stint.yaml"}, flags...)
	s := &setup{asker: a, t: t, stint: programs.Stint(t, flags...), backend: programs.NewBackend(t)}
	s.url = "http://" + a.run(t, form, s.stint, s.backend.Addr)
	s.backend.Seen() // whether it is ready
	return s
}

// run starts a proxy in front of a backend, with a Stint to ask, and returns its address. For each
// pair, it replaces the first text by the second.
func (a *asker) run(t testing.TB, form string, stint *programs.Service, backend string, pairs ...[2]string) (address string) {
	t.Helper()
	address = testkit.Address(t)
	words := map[string]string{
		"127.0.0.1:8000": address, "127.0.0.1:8080": stint.HTTP, "127.0.0.1:9000": backend,
		"100ms": deadline.String(), "wait=60ms": "wait=" + (deadline / 2).String(),
	}
	if a.rls {
		delete(words, "127.0.0.1:8080")
		delete(words, "wait=60ms")
		words["127.0.0.1:8081"] = stint.GRPC
	}
	if a.adapt != nil {
		words = a.adapt(words)
	}
	for _, pair := range pairs {
		words[pair[0]] = pair[1]
	}
	_, port, _ := strings.Cut(address, ":")
	for word, other := range a.words {
		kind, _, named := strings.Cut(word, "@")
		switch {
		case other != "":
			words[word] = strings.ReplaceAll(other, "%s", port)
		case named:
			words[word] = kind + "@" + testkit.Address(t)
		default:
			words[word] = testkit.Address(t)
		}
	}
	command := a.start(t, programs.Adapt(t, fmt.Sprintf(a.file, form), words))
	command.Ready = programs.Listens(address)
	if a.name == "traefik" { // traefik listens before it knows its routes, and then returns 404
		command.Ready = programs.Passes("http://" + address + "/ready")
	}
	programs.Run(t, command)
	return address
}

// answer is a response to a client.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// get sends a request with lines "Name: value" in its header.
func (s *setup) get(client *http.Client, path string, lines ...string) answer {
	s.t.Helper()
	return s.send(client, http.MethodGet, path, "", lines...)
}

func (s *setup) send(client *http.Client, method, path, body string, lines ...string) answer {
	s.t.Helper()
	a, err := s.try(client, method, path, body, lines...)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// try is like send, for a request that may get no response.
func (s *setup) try(client *http.Client, method, path, body string, lines ...string) (answer, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	path, query, _ := strings.Cut(path, "?")
	req.URL = &url.URL{Scheme: "http", Host: req.URL.Host, Opaque: path, RawQuery: query}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text), time.Since(began)}, err
}

// exhaust uses up a client's limit of /reports.
func (s *setup) exhaust(client *http.Client) {
	s.t.Helper()
	for i := range 5 {
		if a := s.get(client, "/reports"); a.status != 200 {
			s.t.Fatalf("report %d: %d %s", i+1, a.status, a.body)
		}
	}
}

func TestLimits(t *testing.T) {
	eachProxy(t, func(t *testing.T, s *setup) {
		one, other := programs.Client(t, "127.0.0.7"), programs.Client(t, "127.0.0.8")
		for left := range 5 {
			left = 4 - left
			body := strings.Repeat("x", 5000*left) // empty bodies, small ones that the proxy buffers, and larger ones
			a := s.send(one, http.MethodPost, fmt.Sprintf("/reports?left=%d", left), body, "X-Other: kept")
			if a.status != 200 || a.body != "POST /reports" {
				t.Fatalf("%d left: %d %s", left, a.status, a.body)
			}
			if got := a.header.Get("X-RateLimit-Remaining"); s.headers && got != fmt.Sprint(left) {
				t.Errorf("%q remain, want %d", got, left)
			}
			s.checkSeen("/reports", fmt.Sprintf("left=%d", left), body)
		}
		a := s.get(one, "/reports")
		if a.status != 429 || a.header.Get("Retry-After") == "" || !s.rls && !strings.HasPrefix(a.header.Get("RateLimit"), `"reports";r=0;t=`) {
			t.Errorf("refused by %d %v", a.status, a.header)
		}
		want := `"code":"rate_limited"`
		switch {
		case s.rls:
			want = ""
		case s.body:
			want = `"code": "too_many_reports", "limit": 5`
		}
		if !strings.Contains(a.body, want) {
			t.Errorf("refused by %s, want %s", a.body, want)
		}
		if seen := s.backend.Seen(); len(seen) != 0 {
			t.Errorf("the backend saw %v", seen[0].URL)
		}
		if s.rls {
			s.checkLogged()
		}
		if a := s.get(other, "/reports"); a.status != 200 {
			t.Errorf("another client: %d %s", a.status, a.body)
		}
		s.checkOwnStatus(one)
	})
}

// checkSeen checks the requests that the backend received.
func (s *setup) checkSeen(path, query, body string) {
	s.t.Helper()
	seen := s.backend.Seen()
	if len(seen) != 1 {
		s.t.Errorf("the backend saw %d requests", len(seen))
		return
	}
	r := seen[0]
	got, err := io.ReadAll(r.Body)
	if err != nil || string(got) != body || r.URL.Path != path || r.URL.RawQuery != query || r.Header.Get("X-Other") != "kept" {
		s.t.Errorf("the backend saw %s %v %v, %d bytes (%v)", r.Method, r.URL, r.Header, len(got), err)
	}
}

// checkLogged checks that the log of denials has the ID of the refused request, which Envoy made.
func (s *setup) checkLogged() {
	s.t.Helper()
	resp, err := http.Get("http://" + s.stint.Admin + "/v1/facts/denials")
	testkit.Must(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !regexp.MustCompile(`"request_id":"[0-9a-f]{8}-[0-9a-f-]{27}"`).Match(body) {
		s.t.Errorf("the log of denials: %v, %s", err, body)
	}
}

// checkOwnStatus checks a refusal with a status and a header of its rule.
func (s *setup) checkOwnStatus(client *http.Client) {
	s.t.Helper()
	if a := s.get(client, "/export"); a.status != 200 {
		s.t.Errorf("the first export: %d %s", a.status, a.body)
	}
	a := s.get(client, "/export")
	want := 402
	if s.rls {
		want = 429
	}
	if a.status != want || s.body && a.header.Get("Link") != `</plans>; rel="payment"` {
		s.t.Errorf("the second export: %d %v %s", a.status, a.header, a.body)
	}
}

// Whatever headers a client adds, it has exactly its five requests, and another client's limit does
// not change.
func TestForgery(t *testing.T) {
	forged := [][]string{
		{"X-Forwarded-Uri: /free"},
		{"X-Original-URI: /free"},
		{"X-Original-Url: http://x/free"},
		{"X-Forwarded-Uri: /free", "X-Original-URI: /free"},
		{"X-Original-URI: /free", "X-Original-URI: /free"},
		{"X-Forwarded-Method: HEAD"},
		{"X-Original-Method: HEAD"},
		{"X-HTTP-Method-Override: HEAD"},
		{"X-Forwarded-For: 127.0.0.8"},
		{"X-Forwarded-For: 127.0.0.8, 127.0.0.1"},
		{"X-Forwarded-For: junk"},
		{"X-Forwarded-For: 127.0.0.8", "X-Forwarded-For: 127.0.0.8"},
		{"X-Real-IP: 127.0.0.8"},
		{"Forwarded: for=127.0.0.8"},
		{"X-Forwarded-Host: other"},
		{"X-Stint-Status: 200"},
		{"Connection: X-Forwarded-For, X-Forwarded-Uri, X-Original-URI, X-Original-Method"},
		{"X-Forwarded-Uri: "},
		{"X-Original-URI: "},
		{"X_Original_URI: /free"},
	}
	eachProxy(t, func(t *testing.T, s *setup) {
		one, victim := programs.Client(t, "127.0.0.7"), programs.Client(t, "127.0.0.8")
		passed := 0
		for _, lines := range forged {
			a := s.get(one, "/reports", lines...)
			switch {
			case a.status == 200:
				passed++
			case a.status != 429 && a.status != 400:
				t.Errorf("%q: %d %s", lines, a.status, a.body)
			}
		}
		if passed > 5 {
			t.Errorf("%d reports, at most 5", passed)
		}
		for range 5 - passed { // requests refused as contradictory were not charged
			s.get(one, "/reports")
		}
		for _, lines := range forged {
			if a := s.get(one, "/reports", lines...); a.status == 200 {
				t.Errorf("%q: one more", lines)
			}
		}
		s.exhaust(victim)
	})
}

// Stint is asked about a request with the largest header that the proxy accepts, like about any
// other: a client must not pass because the proxy cannot send its question.
func TestLargeHeader(t *testing.T) {
	sizes := []int{4000, 7900, 12000, 14000, 16000, 20000, 30000, 60000, 120000, 900000}
	step := 40
	if testing.Short() {
		step = 200
	}
	for size := 14800; size < 15400; size += step { // around the limit of HAProxy
		sizes = append(sizes, size)
	}
	eachProxy(t, func(t *testing.T, s *setup) {
		client := programs.Client(t, "127.0.0.7")
		s.exhaust(client)
		for _, size := range sizes {
			for _, lines := range []int{1, 7} {
				var header []string
				for i := range lines {
					header = append(header, fmt.Sprintf("X-Large-%d: %s", i, strings.Repeat("x", size/lines)))
				}
				// A proxy may close the connection before the whole request is sent.
				if a, err := s.try(client, http.MethodGet, "/reports", "", header...); err == nil && a.status == 200 {
					t.Errorf("%d bytes in %d lines: passed", size, lines)
				}
			}
		}
	})
}

// While Stint is frozen or stopped, each form answers correctly and soon. When Stint is back, the
// limits apply again.
func TestAway(t *testing.T) {
	eachForm(t, []string{"open", "closed"}, func(t *testing.T, s *setup, open bool) {
		client := programs.Client(t, "127.0.0.7")
		s.exhaust(client)
		refused := func() bool { return s.get(client, "/reports").status == 429 }
		if !refused() {
			t.Fatal("a sixth report")
		}

		s.stint.Freeze()
		s.checkAway(client, open, "frozen", s.closed)
		s.stint.Thaw()
		programs.Until(t, "a refusal after the thaw", refused)

		s.stint.Stop()
		stopped := s.stopped
		if stopped == 0 {
			stopped = s.closed
		}
		s.checkAway(client, open, "stopped", stopped)
		s.stint.Start()
		programs.Until(t, "a refusal after the restart", refused)
	})
}

// checkAway checks the responses while Stint does not answer.
func (s *setup) checkAway(client *http.Client, open bool, state string, closed int) {
	s.t.Helper()
	s.backend.Seen()
	a := s.send(client, http.MethodPost, "/reports?now", "body", "X-Other: kept")
	if a.took > 10*deadline {
		s.t.Errorf("%s: answered after %v", state, a.took)
	}
	if !open {
		if a.status != closed || len(s.backend.Seen()) != 0 {
			s.t.Errorf("%s: %d %s, want %d", state, a.status, a.body, closed)
		}
		return
	}
	if a.status != 200 {
		s.t.Errorf("%s: %d %s, want 200", state, a.status, a.body)
		return
	}
	s.checkSeen("/reports", "now", "body")
}

// Requests that a leaky bucket delays leave the proxy one by one too.
func TestQueue(t *testing.T) {
	const apart = 50 * time.Millisecond
	eachProxy(t, func(t *testing.T, s *setup) {
		var group sync.WaitGroup
		var mu sync.Mutex
		passed, refused := 0, 0
		began := time.Now()
		for i := range 15 {
			client := programs.Client(t, fmt.Sprintf("127.0.0.%d", 10+i))
			group.Go(func() {
				a := s.get(client, "/search")
				mu.Lock()
				defer mu.Unlock()
				switch a.status {
				case 200:
					passed++
				case 429:
					refused++
				default:
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		}
		group.Wait()
		if took := time.Since(began); passed == 0 || time.Duration(passed-1)*apart > took {
			t.Errorf("%d passed within %v", passed, took)
		}
		if passed+refused != 15 {
			t.Errorf("%d passed, %d were refused", passed, refused)
		}
	})
}

// Errors and refusals of the backend reach the client: the proxy asks Stint only once, and sends
// the request only once.
func TestBackendAway(t *testing.T) {
	eachProxy(t, func(t *testing.T, s *setup) {
		client := programs.Client(t, "127.0.0.7")
		for _, status := range []int{401, 403, 429, 500, 502, 503, 504} {
			s.backend.Seen()
			a := s.get(client, fmt.Sprintf("/status/%d", status))
			if seen := s.backend.Seen(); a.status != status || len(seen) != 1 || a.body != fmt.Sprintf("GET /status/%d", status) {
				t.Errorf("%d became %d %s, after %d requests", status, a.status, a.body, len(seen))
			}
		}
	})
}

const deviceRules = `
domain: device
descriptors:
  - key: device
    rate_limit: {requests: 2, per: 1h}
http:
  rate_limits:
    - actions: [{device: {cookie: {secret_file: secrets, secure: false}}}]
`

// A new device gets its cookie through the proxy, and is recognized by it later.
func TestCookie(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"device.yaml": deviceRules, "secrets": strings.Repeat("secret", 10) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range askers {
		if a.rls {
			continue // that service has no cookies
		}
		t.Run(a.name, func(t *testing.T) {
			stint := programs.Stint(t, "--rules", filepath.Join(dir, "device.yaml"), "--trusted-proxies", "127.0.0.1")
			backend := programs.NewBackend(t)
			s := &setup{asker: a, t: t, stint: stint, backend: backend}
			s.url = "http://" + a.run(t, "open", stint, backend.Addr, [2]string{"domain=web", "domain=device"})
			client := programs.Client(t, "127.0.0.7")
			first := s.get(client, "/")
			cookie, _, _ := strings.Cut(first.header.Get("Set-Cookie"), ";")
			if first.status != 200 || !strings.HasPrefix(cookie, "stint_device=") {
				t.Fatalf("%d %v", first.status, first.header)
			}
			for i, want := range []int{200, 200, 429} {
				if a := s.get(client, "/", "Cookie: "+cookie); a.status != want {
					t.Errorf("request %d of the device: %d %s, want %d", i+1, a.status, a.body, want)
				}
			}
		})
	}
}
