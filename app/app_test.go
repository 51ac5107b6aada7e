package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/text"
	"stint/server/httpapi"
)

// The client of a Cluster has goroutines that outlive it and end by themselves: it closes
// connections to servers that have left or were renamed after five seconds, and reads the slots
// again for up to one second. Memberlist's probes outlast its Shutdown, by their own timeout at most.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).triggerFunc"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).pushPullTrigger"))
}

// rulesOf returns a rule file: that many requests for each user, in a window that ends in February
// of 2027, and then in 2028.
func rulesOf(requests int) string {
	return fmt.Sprintf("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {requests: %d, per: 366d}\n", requests)
}

// badRules is a rule file with a fault in line 3.
const badRules = "domain: api\ndescriptors:\n  - kye: user\n"

// demoRules let two requests of an address pass in an hour.
const demoRules = `domain: demo
descriptors:
  - key: remote_address
    rate_limit: {requests: 2, per: 1h, algorithm: sliding_log}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`

// testTimeout is how long a test waits for something that must happen.
const testTimeout = time.Minute

// service is an App under test and its log.
type service struct {
	*App
	t   *testing.T
	log *sink
}

// start runs a service on free ports until the test ends.
func start(t *testing.T, change func(*settings.Config)) *service {
	t.Helper()
	s := &service{t: t, log: new(sink)}
	config := settings.Default()
	config.HTTP, config.Admin, config.GRPC, config.RESP = "127.0.0.1:0", "127.0.0.1:0", "", ""
	config.Output = s.log
	change(&config)
	var err error
	if s.App, err = New(config); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s
}

// sink is a log in which tests wait for lines.
type sink struct{ text.OutputBuffer }

// await waits for a line, after the first skip bytes, that contains all words. It returns the
// offset at which that line ends.
func (s *sink) await(t *testing.T, skip int, words ...string) int {
	t.Helper()
	deadline := time.After(testTimeout)
	for {
		text, more := s.Follow()
		at := skip
		for line := range strings.Lines(text[skip:]) {
			at += len(line)
			if holds(line, words) {
				return at
			}
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("no line with %q in the log:\n%s", words, text[skip:])
		}
	}
}

func holds(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

func (s *sink) size() int { return len(s.String()) }

// client keeps no connection open, so that none outlives its test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}

func (s *service) get(setting, path string) (status int, header http.Header, body string) {
	s.t.Helper()
	return s.do(http.MethodGet, setting, path, "")
}

// do sends a request with a body, and with header fields: name, value, name, value.
func (s *service) do(method, setting, path, send string, fields ...string) (status int, header http.Header, body string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.Addr(setting)+path, strings.NewReader(send))
	testkit.Must(s.t, err)
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := client.Do(req)
	testkit.Must(s.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	testkit.Must(s.t, err)
	return resp.StatusCode, resp.Header, string(data)
}

// metric returns the value of a metric, 0 if there is none.
func (s *service) metric(name string) float64 {
	s.t.Helper()
	_, _, body := s.get("admin", "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			testkit.Must(s.t, err)
			return n
		}
	}
	return 0
}

// limit makes a request for a user and returns the limit in use.
func (s *service) limit(user string) int {
	s.t.Helper()
	const question = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": %q}], "cost": 0}]}`
	status, _, body := s.do(http.MethodPost, "http", "/v1/check", fmt.Sprintf(question, user))
	var answer struct{ Limit int }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		s.t.Fatalf("status %d, body %s, error %v", status, body, err)
	}
	return answer.Limit
}

// write writes a file as editors do: it renames a new file over the old one.
func write(t *testing.T, name, content string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	testkit.Must(t, os.WriteFile(name+".tmp", []byte(content), 0o644))
	testkit.Must(t, os.Rename(name+".tmp", name))
}

// TestReadyAtOnce: no client that finds one listener open reads that the service is starting,
// however long the next listener takes.
func TestReadyAtOnce(t *testing.T) {
	config := settings.Default()
	config.HTTP, config.Admin, config.GRPC, config.RESP = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", ""
	config.Output = io.Discard
	a, err := New(config)
	testkit.Must(t, err)
	answers := make(chan httpapi.Status, len(a.listeners))
	for _, l := range a.listeners {
		l.server = lateAnswerer{l.server, func() { answers <- a.status() }}
	}
	testkit.Must(t, a.Start(t.Context()))
	defer a.Stop(context.Background())
	for range a.listeners {
		if s := <-answers; !s.Ready {
			t.Errorf("a listener answers while the service says %q", s.Reason)
		}
	}
}

// lateAnswerer takes time to be ready, and signals when it begins to serve.
type lateAnswerer struct {
	answerer
	begins func()
}

func (l lateAnswerer) Ready(yes bool) {
	time.Sleep(20 * time.Millisecond) // without waiting the other listeners would be open this long
	l.answerer.Ready(yes)
}

func (l lateAnswerer) Serve(on net.Listener) error {
	l.begins()
	return l.answerer.Serve(on)
}

func TestLife(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, demoRules)
	s := start(t, func(c *settings.Config) { c.Rules, c.Demo = []string{file}, "demo" })

	for i, want := range []int{200, 200, 429} {
		status, header, body := s.get("http", "/demo")
		if status != want {
			t.Errorf("request %d: status %d, want %d: %s", i+1, status, want, body)
		}
		if header.Get("X-RateLimit-Limit") != "2" || want == 429 && header.Get("Retry-After") == "" {
			t.Errorf("request %d: headers %v", i+1, header)
		}
	}
	for path, want := range map[string]string{
		"/healthz":   `"ok"`,
		"/readyz":    `"ready":true`,
		"/v1/limits": "demo/remote_address",
		"/metrics":   "stint_",
	} {
		if status, _, body := s.get("admin", path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: status %d, want %q in %s", path, status, want, body)
		}
	}
	if status, _, _ := s.get("admin", "/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("/debug/pprof answers %d, and nobody switched it on", status)
	}
	addresses := []string{s.Addr("http"), s.Addr("admin")}
	s.Stop(context.Background())
	s.Stop(context.Background()) // the second one does nothing
	for _, address := range addresses {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s still accepts calls", address)
		}
	}
}

// Services in one process share nothing.
func TestTwoServices(t *testing.T) {
	files := []string{filepath.Join(t.TempDir(), "a.yaml"), filepath.Join(t.TempDir(), "b.yaml")}
	write(t, files[0], rulesOf(3))
	write(t, files[1], rulesOf(7))
	a := start(t, func(c *settings.Config) { c.Rules = files[:1] })
	b := start(t, func(c *settings.Config) { c.Rules, c.LogFormat = files[1:], "json" })
	if a.limit("x") != 3 || b.limit("x") != 7 {
		t.Errorf("limits %d and %d, want 3 and 7", a.limit("x"), b.limit("x"))
	}
	b.log.await(t, 0, `"msg":"listening"`, `"listener":"http"`)
}

// New refuses what cannot run before it opens anything.
func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	write(t, good, rulesOf(3))
	write(t, bad, badRules)
	write(t, filepath.Join(dir, "empty"), "\n")
	for _, test := range []struct {
		name   string
		change func(*settings.Config)
		want   string
	}{
		{"bad rules", func(c *settings.Config) { c.Rules = []string{bad} }, bad + ":3: "},
		{"missing rules", func(c *settings.Config) { c.Rules = []string{dir + "/none.yaml"} }, dir + "/none.yaml: "},
		{"a bad value", func(c *settings.Config) { c.Store = "redis://x/y" }, "store: "},
		{"no time for a store", func(c *settings.Config) { c.StoreTimeout = 0 }, "store-timeout: must be more than 0"},
		{"a state file in no folder", func(c *settings.Config) { c.State = dir + "/none/counts" }, "state: cannot write in the folder " + dir + "/none: no such file"},
		{"a state file that cannot be read", func(c *settings.Config) { c.State = dir }, "state: cannot read " + dir + ": not a regular file"},
		{"a demo of an unknown domain", func(c *settings.Config) { c.Rules, c.Demo = []string{good}, "demo" }, `demo: no rules for domain "demo"`},
		{"a demo without http rules", func(c *settings.Config) { c.Rules, c.Demo = []string{good}, "api" }, `demo: domain "api" does not say`},
		{"a missing token", func(c *settings.Config) { c.AdminTokenFile = dir + "/none" }, "admin-token-file: cannot read the token: no such file"},
		{"an empty token", func(c *settings.Config) { c.AdminTokenFile = dir + "/empty" }, "admin-token-file: " + dir + "/empty holds no token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := settings.Default()
			test.change(&config)
			if _, err := New(config); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// If an address is taken Start fails, and closes the listeners that it opened before, and the files of New.
func TestStartTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer taken.Close()
	config := settings.Default()
	config.HTTP, config.Admin, config.GRPC, config.Output = taken.Addr().String(), "127.0.0.1:0", "", io.Discard
	config.Facts.Denials = filepath.Join(t.TempDir(), "denials")
	a, err := New(config)
	testkit.Must(t, err)
	err = a.Run(t.Context())
	if want := "http: cannot listen on " + config.HTTP; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if conn, err := net.Dial("tcp", a.Addr("admin")); err == nil {
		conn.Close()
		t.Error("the admin listener was left open")
	}
	if err := a.facts.Discard(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the log of denials was left open: closing it again gives %v", err)
	}
}

// An empty address is no listener.
func TestListeners(t *testing.T) {
	s := start(t, func(c *settings.Config) { c.Admin = "" })
	s.log.await(t, 0, "no rules are given")
	if s.Addr("admin") != "" {
		t.Errorf("admin listens on %s, and is switched off", s.Addr("admin"))
	}
	if strings.Contains(s.log.String(), "listener=grpc") {
		t.Error("grpc is logged, and was switched off")
	}
}

// On an address that other machines reach admin calls need the token.
func TestAdminToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "secret\n")
	s := start(t, func(c *settings.Config) { c.AdminTokenFile = file })
	if status, _, _ := s.get("admin", "/v1/limits"); status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", status)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr("admin")+"/v1/limits", nil)
	testkit.Must(t, err)
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := client.Do(req)
	testkit.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("with the token: status %d", resp.StatusCode)
	}
}

// A call in flight is finished; one that takes longer than the timeout is cut; a connection without
// a request does not delay the end.
func TestDrain(t *testing.T) {
	const question = `{"key": "k", "limit": {"requests": 1, "per": "1s"}}`
	for _, test := range []struct {
		name    string
		timeout time.Duration
		finish  bool // send the rest of the call
	}{
		{"finished", testTimeout, true},
		{"cut", 10 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(c *settings.Config) { c.DrainTimeout = test.timeout })
			conn, err := net.Dial("tcp", s.Addr("http"))
			testkit.Must(t, err)
			defer conn.Close()
			testkit.Must(t, conn.SetDeadline(time.Now().Add(testTimeout)))
			_, err = fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(question))
			testkit.Must(t, err)
			answers := bufio.NewReader(conn)
			// The server asks for the body when the handler reads it: the call is in flight.
			if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
				t.Fatalf("answer %q, error %v", line, err)
			}
			_, _ = answers.ReadString('\n')

			stopped := make(chan struct{})
			go func() { s.Stop(context.Background()); close(stopped) }()
			s.log.await(t, 0, "draining")
			if !test.finish {
				<-stopped
				s.log.await(t, 0, "calls in flight were cut")
				return
			}
			_, err = io.WriteString(conn, question)
			testkit.Must(t, err)
			resp, err := http.ReadResponse(answers, nil)
			testkit.Must(t, err)
			defer resp.Body.Close()
			if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"allowed":true`) {
				t.Errorf("status %d, body %s", resp.StatusCode, body)
			}
			<-stopped
		})
	}
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		s := start(t, func(*settings.Config) {})
		for _, setting := range []string{"http", "admin"} {
			conn, err := net.Dial("tcp", s.Addr(setting))
			testkit.Must(t, err)
			defer conn.Close()
		}
		began := time.Now()
		s.Stop(context.Background())
		if took := time.Since(began); took > 4*time.Second { // the connections' own deadline is five seconds
			t.Errorf("stopping took %v", took)
		}
	})
}

// Without connections the service ends at once. If a client uses its connection within the delay,
// the answer asks it to close, and the service waits no longer.
func TestDrainAuto(t *testing.T) {
	s := start(t, func(*settings.Config) {})
	began := time.Now()
	s.Stop(context.Background())
	if took := time.Since(began); took > settings.Linger/2 {
		t.Errorf("without connections the end took %v", took)
	}
	s = start(t, func(*settings.Config) {})
	conn, err := net.Dial("tcp", s.Addr("http"))
	testkit.Must(t, err)
	defer conn.Close()
	testkit.Must(t, conn.SetDeadline(time.Now().Add(testTimeout)))
	answers := bufio.NewReader(conn)
	ask := func() *http.Response {
		_, err := io.WriteString(conn, "GET /v1/check HTTP/1.1\r\nHost: x\r\n\r\n")
		testkit.Must(t, err)
		resp, err := http.ReadResponse(answers, nil)
		testkit.Must(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		testkit.Must(t, errors.Join(err, resp.Body.Close()))
		return resp
	}
	if ask().Close {
		t.Error("the connection is not kept")
	}
	stopped := make(chan struct{})
	go func() { s.Stop(context.Background()); close(stopped) }()
	s.log.await(t, 0, "draining", "delay=auto")
	for !ask().Close { // a listener that ends without asking clients to leave cuts the connection, and ask fails
	}
	<-stopped
}

// While it drains a service still answers, and /readyz reports that it is not ready.
func TestDrainDelay(t *testing.T) {
	s := start(t, func(c *settings.Config) { c.DrainDelay = time.Hour })
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { s.Stop(ctx); close(stopped) }()
	s.log.await(t, 0, "draining")
	if status, _, body := s.get("admin", "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
		t.Errorf("/readyz: status %d, %s", status, body)
	}
	if status, _, _ := s.do(http.MethodPost, "http", "/v1/check", `{"key": "k", "limit": {"requests": 1, "per": "1s"}}`); status != http.StatusOK {
		t.Errorf("a call within the delay: status %d", status)
	}
	cancel() // not after an hour
	<-stopped
}
