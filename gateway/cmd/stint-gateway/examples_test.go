package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/gateway/gatewaytest/program"
	"stint/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// example is a running example. Its addresses and its data are those of the test.
type example struct {
	t             *testing.T
	address, data string
	client        *http.Client
	env           []string
	running       *program.Running
}

// run starts a command in the environment of an example and waits until its page is served.
func run(t *testing.T, dir string, words ...string) *example {
	t.Helper()
	e := &example{t: t, address: testkit.Address(t), data: t.TempDir(), client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, //nolint:gosec // a certificate of the example's own authority
	}}}
	t.Cleanup(e.client.CloseIdleConnections)
	e.env = append(os.Environ(), "GATEWAY_DATA="+e.data, "GATEWAY_ADDRESS="+e.address, "GATEWAY_BINARY="+program.Path(),
		"GATEWAY_ADMIN="+testkit.Address(t), "GATEWAY_UPSTREAM="+testkit.Address(t))
	if len(words) == 0 {
		words = []string{program.Path(), "run"}
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, e.env
	t.Cleanup(func() { // after Start has stopped it
		if e.running.Err != nil {
			t.Errorf("the example ended with %v", e.running.Err)
		}
	})
	e.running = program.Start(t, cmd)
	testkit.Until(t, "the example answers", func() bool {
		resp, err := e.client.Get("https://" + e.address + "/")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	})
	return e
}

// ask sends a request; fields are pairs of header names and values.
func (e *example) ask(method, path, body string, fields ...string) (*http.Response, string) {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), method, "https://"+e.address+path, strings.NewReader(body))
	testkit.Must(e.t, err)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := e.client.Do(r)
	testkit.Must(e.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(e.t, err)
	return resp, string(text)
}

// expect asks, and checks the status and a piece of the answer.
func (e *example) expect(status int, piece, method, path string, fields ...string) *http.Response {
	e.t.Helper()
	resp, body := e.ask(method, path, "", fields...)
	if resp.StatusCode != status || !strings.Contains(body, piece) {
		e.t.Errorf("%s %s: %d %s, want %d with %q", method, path, resp.StatusCode, body, status, piece)
	}
	return resp
}

// outcome waits for the answer to a queued request.
func (e *example) outcome(path string, fields ...string) (status int, body string) {
	e.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		resp, body := e.ask(http.MethodGet, path, "", fields...)
		if resp.StatusCode != http.StatusAccepted || time.Now().After(deadline) {
			return resp.StatusCode, body
		}
		testkit.Pause(100 * time.Millisecond)
	}
}

// key makes an API key over Caddy's admin endpoint.
func (e *example) key(subject string) string {
	e.t.Helper()
	admin := ""
	for _, v := range e.env {
		if value, ok := strings.CutPrefix(v, "GATEWAY_ADMIN="); ok {
			admin = value
		}
	}
	resp, err := http.Post("http://"+admin+"/stint/v1/keys", "application/json", strings.NewReader(`{"subject": "`+subject+`"}`)) //nolint:noctx // a local endpoint
	testkit.Must(e.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testkit.Must(e.t, err)
	_, rest, ok := strings.Cut(string(text), `"key":"`)
	key, _, _ := strings.Cut(rest, `"`)
	if !ok || key == "" {
		e.t.Fatalf("no key: %d %s", resp.StatusCode, text)
	}
	return key
}

const examples = "../../../examples/gateway/"

// `make gateway` starts what the README shows: 200 from the page, 401 without a key, 200, 429 with
// headers, and 202 for an order over the limit, which is carried out later. No log contains the key.
func TestFirstRun(t *testing.T) {
	e := run(t, "../../..", "scripts/gateway.sh")
	file := filepath.Join(e.data, "key")
	testkit.Until(t, "there is a key", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && len(data) > 0
	})
	data, err := os.ReadFile(file)
	testkit.Must(t, err)
	key := []string{"X-Api-Key", strings.TrimSpace(string(data))}
	e.expect(200, "It works", "GET", "/")
	if resp := e.expect(401, "", "GET", "/api/hello"); resp.Header.Get("WWW-Authenticate") == "" {
		t.Error("401 without a challenge")
	}
	e.expect(200, "hello, user 42", "GET", "/api/hello", append(key, "X-Stint-Identity", "43")...)
	if resp := e.expect(429, "rate_limited", "GET", "/api/hello", key...); resp.Header.Get("Retry-After") == "" || resp.Header.Get("RateLimit") == "" {
		t.Errorf("429 without headers: %v", resp.Header)
	}
	resp := e.expect(202, "waiting", "POST", "/api/orders", key...)
	location := resp.Header.Get("Location")
	e.expect(401, "", "GET", location)
	if status, body := e.outcome(location, key...); status != 200 || body != "order of user 42 taken\n" {
		t.Errorf("the order: %d %s", status, body)
	}
	if strings.Contains(e.running.Log.String(), key[1]) {
		t.Error("the log contains the key")
	}
	if strings.Contains(e.running.Log.String(), "without the name of their client") {
		t.Error("a warning, though stint_identity names the client")
	}
}

// The shop serves pages, counts failed logins alone, and queues orders.
func TestShop(t *testing.T) {
	e := run(t, examples+"shop")
	e.expect(200, "<h1>Shop</h1>", "GET", "/")
	e.expect(200, "welcome", "GET", "/api/products")
	if resp, _ := e.ask("POST", "/api/products", strings.Repeat("x", 2<<20)); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 2 MiB: %d", resp.StatusCode)
	}
	for range 10 {
		e.expect(200, "welcome", "POST", "/login", "X-Password", "sesame")
	}
	for range 5 {
		e.expect(401, "wrong password", "POST", "/login")
	}
	for _, path := range []string{"/login", "/LogIn", "//login", "/%6Cogin"} {
		e.expect(429, "rate_limited", "POST", path, "X-Password", "sesame")
	}
	for range 2 {
		e.expect(200, "order taken", "POST", "/orders")
	}
	resp := e.expect(202, "waiting", "POST", "/orders")
	if status, body := e.outcome(resp.Header.Get("Location")); status != 200 || body != "order taken" {
		t.Errorf("the order: %d %s", status, body)
	}
}

// The API company's customers have keys, each with a limit, and its server never gets a key.
func TestAPI(t *testing.T) {
	e := run(t, examples+"api")
	first, second := e.key("user=first"), e.key("user=second")
	e.expect(401, "", "GET", "/v1/things")
	e.expect(401, "", "GET", "/v1/things", "X-Api-Key", first[:len(first)-1]+"-")
	for range 3 {
		e.expect(200, "customer first, key ", "GET", "/v1/things", "X-Api-Key", first)
	}
	e.expect(429, "rate_limited", "GET", "/v1/things", "X-Api-Key", first)
	if _, body := e.ask("GET", "/v1/things", "", "Authorization", "Bearer "+second); body != "customer second, key " {
		t.Errorf("the upstream got %q", body)
	}
	for _, key := range []string{first, second} {
		if strings.Contains(e.running.Log.String(), key) {
			t.Error("the log contains a key")
		}
	}
}

// The server with nothing else serves its site, and stops guessed passwords before they are hashed.
func TestServer(t *testing.T) {
	e := run(t, examples+"server")
	e.expect(200, "<h1>A site</h1>", "GET", "/")
	e.expect(401, "", "GET", "/admin/")
	right := []string{"Authorization", "Basic YW5uOnNlc2FtZQ=="}
	e.expect(200, "Administration", "GET", "/admin/", right...)
	for range 4 {
		e.expect(401, "", "GET", "/admin/", "Authorization", "Basic YW5uOnNlc2FtZXg=")
	}
	for _, path := range []string{"/admin/", "/Admin/", "//admin/", "/%61dmin/"} {
		e.expect(429, "rate_limited", "GET", path, right...)
	}
}
