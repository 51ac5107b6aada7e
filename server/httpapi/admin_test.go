package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"stint"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// call sends a request to a handler; header has lines "Name: value".
func call(t *testing.T, handler http.Handler, method, path, body string, header ...string) (status int, answer string, fields http.Header) {
	t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Host = "localhost:8082"
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text), w.Result().Header
}

// A key is inspected, reset, and inspected again.
func TestInspectAndReset(t *testing.T) {
	l, _ := newLimiter(t)
	admin, traffic := NewAdmin(l, AdminOptions{}), NewTraffic(l, TrafficOptions{}).Handler()
	const (
		user   = `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`
		nested = `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]},{"entries":[{"key":"user","value":"42"},{"key":"path","value":"/login"}]},{"entries":[{"key":"nobody","value":""}]},{"entries":[{"key":"free","value":""}]}]}`
		inline = `{"key":"k","limit":{"algorithm":"sliding_log","requests":3,"per":"1m","min_interval":"10ms"},"cost":2}`

		bucket = `"config":{"algorithm":"token_bucket","requests":5,"per":"1s","burst":5,"refill":"steady"}`
		window = `"config":{"algorithm":"fixed_window","requests":2,"per":"1m","align":"epoch"}`
		log    = `"config":{"algorithm":"sliding_log","requests":3,"per":"1m","min_interval":"10ms"}`
	)
	for _, step := range []struct{ path, body, want string }{
		{"/v1/inspect", user, `{"limits":[{"descriptor":0,"rule":"api/user","shadow":false,` + bucket + `,"limit":5,"used":0,"remaining":5,"reset_after_ms":0,"degraded":false}],"unmatched":[]}`},
		{"/v1/inspect", strings.Replace(user, `{`, `{"at_most":true,`, 1), `{"limits":[{"descriptor":0,"rule":"api/user","shadow":false,` + bucket + `,"limit":5,"used":0,"remaining":5,"reset_after_ms":0,"degraded":false}],"unmatched":[]}`},
		{"/v1/check", user, ""},
		{"/v1/check", nested, ""},
		{"/v1/inspect", nested, `{"limits":[` +
			`{"descriptor":0,"rule":"api/user","shadow":false,` + bucket + `,"limit":5,"used":2,"remaining":3,"reset_after_ms":400,"degraded":false},` +
			`{"descriptor":1,"rule":"log\"in","shadow":false,` + window + `,"limit":2,"used":1,"remaining":1,"reset_after_ms":60000,"degraded":false},` +
			`{"descriptor":3,"rule":"api/free","shadow":false,"config":{"algorithm":"unlimited"},"limit":null,"used":null,"remaining":null,"reset_after_ms":0,"degraded":false}],"unmatched":[2]}`},
		{"/v1/reset", nested, `{"limits":[{"descriptor":0,"rule":"api/user"},{"descriptor":1,"rule":"log\"in"},{"descriptor":3,"rule":"api/free"}],"unmatched":[2]}`},
		{"/v1/inspect", user, `{"limits":[{"descriptor":0,"rule":"api/user","shadow":false,` + bucket + `,"limit":5,"used":0,"remaining":5,"reset_after_ms":0,"degraded":false}],"unmatched":[]}`},
		{"/v1/check", inline, ""},
		{"/v1/inspect", inline, `{"limits":[{"descriptor":0,"rule":"","shadow":false,` + log + `,"limit":3,"used":2,"remaining":1,"reset_after_ms":60000,"degraded":false}],"unmatched":[]}`},
		{"/v1/reset", inline, `{"limits":[{"descriptor":0,"rule":""}],"unmatched":[]}`},
		{"/v1/inspect", inline, `{"limits":[{"descriptor":0,"rule":"","shadow":false,` + log + `,"limit":3,"used":0,"remaining":3,"reset_after_ms":0,"degraded":false}],"unmatched":[]}`},
		{"/v1/reset", `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}]},{"entries":[{"key":"user","value":"42"}]}]}`, `{"limits":[{"descriptor":0,"rule":"api/user"},{"descriptor":1,"rule":"api/user"}],"unmatched":[]}`},
		{"/v1/inspect", `{"domain":"other","descriptors":[{"entries":[{"key":"user","value":"42"}]}]}`, `{"limits":[],"unmatched":[0]}`},
	} {
		handler := admin
		if step.want == "" {
			handler = traffic
		}
		status, answer, _ := call(t, handler, "POST", step.path, step.body)
		if status != 200 || step.want != "" && answer != step.want+"\n" {
			t.Errorf("%s %s: status %d\n%swant\n%s", step.path, step.body, status, answer, step.want)
		}
	}
}

func TestLimits(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
  - key: user
    rate_limit: {algorithm: token_bucket, requests: 5, per: 90s, refill: step, overdraw: true, on_store_failure: deny}
  - key: log
    rate_limit: {algorithm: sliding_log, requests: 5, per: 1h, count_denied: true, candidate: {algorithm: token_bucket, burst: 2}}
    shadow_mode: true
`)}, rulefile.Source{Name: "b.yaml", Data: []byte(`
domain: b
atomic: false
descriptors:
  - key: free
    rate_limit: {unlimited: true}
  - key: month
    rate_limit: {unit: month, requests_per_unit: 0, time_zone: Europe/Madrid, replaces: [{name: x}]}
  - key: queue
    rate_limit: {algorithm: leaky_bucket, requests: 5, per: 1w, max_wait: 1500ms}
  - key: blocks
    rate_limit: {algorithm: sliding_window, requests: 5, per: 1d, blocks: 24}
`)})
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(brokenStore{}, table, limiter.Options{})
	handler := NewAdmin(l, AdminOptions{Status: func() Status { return Status{Ready: true, Generation: 3} }})
	const want = `{"hash":"%s","generation":3,"rules":6,"domains":[` +
		`{"domain":"api","atomic":true,"rules":[` +
		`{"name":"api/user","file":"api.yaml","line":5,"algorithm":"token_bucket","requests":5,"per":"90s","burst":5,"refill":"step","overdraw":true,"shadow":false,"quota":false,"on_store_failure":"deny","coordination":"strict"},` +
		`{"name":"api/log","file":"api.yaml","line":7,"algorithm":"sliding_log","requests":5,"per":"1h","count_denied":true,"candidate":{"algorithm":"token_bucket","requests":5,"per":"1h","burst":2,"refill":"steady"},"shadow":true,"quota":false,"on_store_failure":"allow","coordination":"strict"}]},` +
		`{"domain":"b","atomic":false,"rules":[` +
		`{"name":"b/free","file":"b.yaml","line":6,"algorithm":"unlimited","shadow":false,"quota":false,"on_store_failure":"allow","coordination":"strict"},` +
		`{"name":"b/month","file":"b.yaml","line":8,"algorithm":"fixed_window","requests":0,"per":"month","align":"epoch","time_zone":"Europe/Madrid","shadow":false,"quota":false,"replaces":["x"],"on_store_failure":"allow","coordination":"strict"},` +
		`{"name":"b/queue","file":"b.yaml","line":10,"algorithm":"leaky_bucket","requests":5,"per":"7d","burst":0,"max_wait":"1500ms","shadow":false,"quota":false,"on_store_failure":"allow","coordination":"strict"},` +
		`{"name":"b/blocks","file":"b.yaml","line":12,"algorithm":"sliding_window","requests":5,"per":"1d","blocks":24,"start":"unused","shadow":false,"quota":false,"on_store_failure":"allow","coordination":"strict"}]}]}` + "\n"
	status, answer, _ := call(t, handler, "GET", "/v1/limits", "")
	if status != 200 || answer != fmt.Sprintf(want, table.Hash()) {
		t.Errorf("status %d\n%swant\n"+want, status, answer, table.Hash())
	}
	l.Swap(nil)
	if _, answer, _ = call(t, handler, "GET", "/v1/limits", ""); answer != `{"hash":"","generation":3,"rules":0,"domains":[]}`+"\n" {
		t.Errorf("without a table: %s", answer)
	}
}

func TestHealth(t *testing.T) {
	l, _ := newLimiter(t)
	s := Status{Ready: true, Generation: 1, Store: "memory"}
	handler := NewAdmin(l, AdminOptions{Token: "secret", Status: func() Status { return s }})
	hash := l.Table().Hash()
	expect := func(path string, wantStatus int, want string) {
		t.Helper()
		if status, answer, _ := call(t, handler, "GET", path, "", "Authorization: Bearer secret"); status != wantStatus || answer != want+"\n" {
			t.Errorf("%s: status %d, %s want %d, %s", path, status, answer, wantStatus, want)
		}
	}
	expect("/healthz", 200, `{"status":"ok"}`)
	expect("/readyz", 200, `{"ready":true,"reason":"","rules":{"hash":"`+hash+`","generation":1,"count":5,"reload_error":""},"store":{"kind":"memory","error":""}}`)
	s.ReloadError = "api.yaml:3: unknown word"
	expect("/readyz", 200, `{"ready":true,"reason":"","rules":{"hash":"`+hash+`","generation":1,"count":5,"reload_error":"api.yaml:3: unknown word"},"store":{"kind":"memory","error":""}}`)
	s = Status{Reason: "draining", Store: "redis", StoreError: "connection refused"}
	expect("/readyz", 503, `{"ready":false,"reason":"draining","rules":{"hash":"`+hash+`","generation":0,"count":5,"reload_error":""},"store":{"kind":"redis","error":"connection refused"}}`)
	expect("/healthz", 200, `{"status":"ok"}`)
}

// If a token is configured, all paths except the health checks require it. A wrong token is logged
// without its value.
func TestToken(t *testing.T) {
	l, _ := newLimiter(t)
	var log bytes.Buffer
	handler := NewAdmin(l, AdminOptions{
		Token: "secret", Pprof: true, Metrics: http.NotFoundHandler(),
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for _, test := range []struct {
		path, header string
		guarded, ok  bool
	}{
		{"/healthz", "", false, true},
		{"/readyz", "", false, true},
		{"/v1/limits", "", true, false},
		{"/v1/limits", "Authorization: Bearer secret", true, true},
		{"/v1/limits", "Authorization: bearer  secret ", true, true},
		{"/v1/limits", "Authorization: Bearer wrong-token", true, false},
		{"/v1/limits", "Authorization: Bearer secret2", true, false},
		{"/v1/limits", "Authorization: Bearer", true, false},
		{"/v1/limits", "Authorization: Basic secret", true, false},
		{"/v1/limits?token=secret", "", true, false},
		{"/metrics", "", true, false},
		{"/debug/pprof/", "", true, false},
		{"/debug/pprof/cmdline", "", true, false},
	} {
		status, answer, fields := call(t, handler, "GET", test.path, "", test.header)
		if (status == 200) != test.ok {
			t.Errorf("%s with %q: status %d", test.path, test.header, status)
		}
		if test.guarded && !test.ok {
			const want = `{"error":{"code":"unauthorized","message":"the admin token is missing or wrong; send it as Authorization: Bearer TOKEN","context":{}}}` + "\n"
			if status != 401 || answer != want || fields.Get("WWW-Authenticate") != `Bearer realm="stint admin"` {
				t.Errorf("%s with %q: %d %v %s", test.path, test.header, status, fields, answer)
			}
		}
	}
	for _, path := range []string{"/v1/inspect", "/v1/reset"} {
		if status, _, _ := call(t, handler, "POST", path, fmt.Sprintf(short, "user", "1", 1)); status != 401 {
			t.Errorf("%s without a token: %d", path, status)
		}
	}
	if strings.Contains(log.String(), "wrong-token") || !strings.Contains(log.String(), "admin call refused") {
		t.Errorf("logged\n%s", &log)
	}
}

// A reset is logged with the rules and the caller, but without the key.
func TestResetIsLogged(t *testing.T) {
	l, _ := newLimiter(t)
	var log bytes.Buffer
	handler := NewAdmin(l, AdminOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	call(t, handler, "POST", "/v1/reset", fmt.Sprintf(short, "user", "top-secret", 1))
	_, line, _ := strings.Cut(log.String(), " ")
	if want := `level=INFO msg="limits reset for a key" domain=api rules=[api/user] peer=192.0.2.1:1234` + "\n"; line != want {
		t.Errorf("logged\n%swant\n%s", line, want)
	}
}

// failingStore fails after a number of calls.
type failingStore struct {
	stint.Store
	calls int // calls before the failure
	err   error
}

func (s *failingStore) Decide(ctx context.Context, call *stint.Call) error {
	if s.calls--; s.calls < 0 {
		return s.err
	}
	return s.Store.Decide(ctx, call)
}

// The error of a failed reset lists the keys already reset, and those that may have been.
func TestResetFails(t *testing.T) {
	l, _ := newLimiter(t)
	const (
		user    = `{"entries":[{"key":"user","value":"42"}]}`
		nested  = `{"entries":[{"key":"user","value":"42"},{"key":"path","value":"/login"}]}`
		nobody  = `{"entries":[{"key":"nobody","value":""}]}`
		several = `{"domain":"api","descriptors":[` + user + "," + nobody + "," + nested + "," + user + `]}`
		one     = `{"domain":"api","descriptors":[` + nested + `]}`
		away    = "; try again; a key cannot be reset while its store is away"
	)
	unknown := fmt.Errorf("%w: %w", stint.ErrUnknown, context.DeadlineExceeded)
	for _, test := range []struct {
		name  string
		calls int
		err   error
		body  string
		want  string
		rules string // the logged rules
	}{
		{"at once", 0, io.ErrUnexpectedEOF, several, `"descriptors[0]: the store could not decide; none of the others was reset` + away +
			`","context":{"field":"descriptors[0]","limits":[],"unmatched":[],"unknown":[]}`, ""},
		{"midway", 1, io.ErrUnexpectedEOF, several, `"descriptors[2]: the store could not decide; of the others only those before it were reset` + away +
			`","context":{"field":"descriptors[2]","limits":[{"descriptor":0,"rule":"api/user"}],"unmatched":[1],"unknown":[]}`, "[api/user]"},
		{
			"midway, without an answer", 1, unknown, several,
			`"descriptors[2]: the store did not decide in time, and the key may have been reset or not; of the others only those before it were reset` + away +
				`","context":{"field":"descriptors[2]","limits":[{"descriptor":0,"rule":"api/user"}],"unmatched":[1],"unknown":[{"descriptor":2,"rule":"log\"in"}]}`, `"[api/user log\"in]"`,
		},
		{"one", 0, io.ErrUnexpectedEOF, one, `"the store could not decide` + away + `","context":{"limits":[],"unmatched":[],"unknown":[]}`, ""},
		{"one, without an answer", 0, unknown, one, `"the store did not decide in time, and the key may have been reset or not` + away +
			`","context":{"limits":[],"unmatched":[],"unknown":[{"descriptor":0,"rule":"log\"in"}]}`, `"[log\"in]"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			broken := limiter.New(&failingStore{memory.New(memory.Options{}), test.calls, test.err}, l.Table(), limiter.Options{})
			status, answer, _ := call(t, NewAdmin(broken, AdminOptions{Log: slog.New(slog.NewTextHandler(&log, nil))}), "POST", "/v1/reset", test.body)
			if want := `{"error":{"code":"no_decision","message":` + test.want + "}}\n"; status != 503 || answer != want {
				t.Errorf("status %d\n%swant\n%s", status, answer, want)
			}
			if _, rules, _ := strings.Cut(log.String(), " rules="); (rules == "") != (test.rules == "") || !strings.HasPrefix(rules, test.rules) {
				t.Errorf("logged %s, want rules %s", &log, test.rules)
			}
		})
	}
}

func TestAdminRefusals(t *testing.T) {
	l, _ := newLimiter(t)
	good := fmt.Sprintf(short, "user", "1", 1)
	for _, test := range []struct {
		name, method, path, body, header string
		status                           int
		want                             string
	}{
		{"wrong method", "GET", "/v1/reset", "", "", 405, `{"error":{"code":"method_not_allowed","message":"\"GET\" is not a method of this path; use POST","context":{}}}`},
		{"wrong method of a read", "DELETE", "/v1/limits", "", "", 405, `{"error":{"code":"method_not_allowed","message":"\"DELETE\" is not a method of this path; use GET, HEAD","context":{}}}`},
		{"unknown path", "GET", "/v2", "", "", 404, `{"error":{"code":"not_found","message":"nothing is at \"/v2\"; see docs/openapi.yaml for what is on this listener","context":{}}}`},
		{"pprof is off", "GET", "/debug/pprof/", "", "", 404, `{"error":{"code":"not_found","message":"nothing is at \"/debug/pprof/\"; see docs/openapi.yaml for what is on this listener","context":{}}}`},
		{"no metrics", "GET", "/metrics", "", "", 404, `{"error":{"code":"not_found","message":"nothing is at \"/metrics\"; see docs/openapi.yaml for what is on this listener","context":{}}}`},
		{"content type", "POST", "/v1/reset", good, "Content-Type: text/plain", 415, `{"error":{"code":"unsupported_media_type","message":"the content type is \"text/plain\"; send JSON as application/json","context":{}}}`},
		{"bad body", "POST", "/v1/inspect", `{"domain":"a"}`, "", 400, `{"error":{"code":"bad_request","message":"descriptors: missing; describe the request by at least one descriptor","context":{"field":"descriptors"}}}`},
		{"large body", "POST", "/v1/inspect", strings.Repeat(" ", MaxBody+1), "", 413, `{"error":{"code":"body_too_large","message":"the body is larger than 1048576 bytes; send several requests","context":{}}}`},
		{"another site's page", "POST", "/v1/reset", good, "Sec-Fetch-Site: cross-site", 403, `{"error":{"code":"forbidden","message":"a page of another site sent this; call it from outside a browser","context":{}}}`},
		{"another site's page, old browser", "POST", "/v1/reset", good, "Origin: https://evil.example", 403, `{"error":{"code":"forbidden","message":"a page of another site sent this; call it from outside a browser","context":{}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, answer, fields := call(t, NewAdmin(l, AdminOptions{}), test.method, test.path, test.body, test.header)
			if status != test.status || answer != test.want+"\n" {
				t.Errorf("status %d\n%swant %d\n%s", status, answer, test.status, test.want)
			}
			if !json.Valid([]byte(answer)) || fields.Get("Content-Type") != "application/json" {
				t.Errorf("%s is %s", fields.Get("Content-Type"), answer)
			}
			if test.status == 405 && !strings.HasSuffix(answer[:strings.Index(answer, `","context`)], "use "+fields.Get("Allow")) {
				t.Errorf("Allow: %s", fields.Get("Allow"))
			}
		})
	}
	t.Run("no decision", func(t *testing.T) {
		broken := limiter.New(brokenStore{io.ErrUnexpectedEOF}, l.Table(), limiter.Options{})
		if status, answer, _ := call(t, NewAdmin(broken, AdminOptions{}), "POST", "/v1/reset", good); status != 503 || !strings.Contains(answer, "no_decision") || strings.Contains(answer, "on_store_failure") {
			t.Errorf("status %d, %s", status, answer)
		}
	})
}

// docs/openapi.yaml contains every path, and its examples of a check are accepted.
func TestOpenAPI(t *testing.T) {
	text, err := os.ReadFile("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/", OpenAPIPath, CheckPath, AuthPath, JSONPath, HealthPath, "/v1/limits", "/v1/inspect", "/v1/reset", "/rlconfig",
		"/healthz", "/readyz", "/metrics", "/v1/load", "/v1/load/{name}", "/v1/rules", "/v1/rules/{id}",
	} {
		if !bytes.Contains(text, []byte("\n  "+path+":\n")) {
			t.Errorf("%s is not described", path)
		}
	}
	l, _ := newLimiter(t)
	traffic := NewTraffic(l, TrafficOptions{}).Handler()
	examples := regexp.MustCompile(`(?m)^ +value: (\{".*\})$`).FindAllSubmatch(text, -1)
	for _, m := range examples {
		if status, answer, _ := call(t, traffic, "POST", CheckPath, string(m[1])); status != 200 {
			t.Errorf("%s: status %d, %s", m[1], status, answer)
		}
	}
	if len(examples) < 8 {
		t.Errorf("found %d examples of a check", len(examples))
	}
}
