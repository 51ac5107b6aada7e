package httpapi

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"stint/load"
	"stint/server/access"
)

// Without a token only local hosts and the configured ones are answered; with a token, every host.
func TestAdminHosts(t *testing.T) {
	l, _ := newLimiter(t)
	open := NewAdmin(l, AdminOptions{Hosts: []string{"Stint.internal", "192.0.2.7"}})
	closed := NewAdmin(l, AdminOptions{Token: "secret"})
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost:8082": 200, "localhost.": 200, "127.0.0.1:8082": 200, "127.9.9.9": 200, "[::1]:8082": 200, "[::1]": 200,
		"[::ffff:127.0.0.1]:1": 200, "stint.internal:8082": 200, "192.0.2.7:8082": 200,
		"": 403, "rebound.example:8082": 403, "localhost.rebound.example": 403, "127.0.0.1.rebound.example": 403, "192.0.2.1": 403, "10.0.0.1:8082": 403,
		"0.0.0.0:8082": 403, "[2001:db8::1]:8082": 403, "stint.internal.example": 403,
	} {
		for _, ask := range []struct{ method, path, body string }{
			{"GET", "/v1/limits", ""}, {"POST", "/v1/inspect", fmt.Sprintf(short, "user", "1", 1)}, {"POST", "/v1/reset", fmt.Sprintf(short, "user", "1", 1)},
		} {
			status, answer, _ := call(t, open, ask.method, ask.path, ask.body, "Host: "+host)
			if status != want || status == 403 && !strings.Contains(answer, "--admin-host") {
				t.Errorf("%s %s for %q: %d %s, want %d", ask.method, ask.path, host, status, answer, want)
			}
			if status, _, _ := call(t, closed, ask.method, ask.path, ask.body, "Host: "+host, "Authorization: Bearer secret"); status != 200 {
				t.Errorf("%s %s for %q with the token: %d", ask.method, ask.path, host, status)
			}
			if status, _, _ := call(t, closed, ask.method, ask.path, ask.body, "Host: "+host); status != 401 {
				t.Errorf("%s %s for %q without the token: %d", ask.method, ask.path, host, status)
			}
		}
		if status, _, _ := call(t, open, "GET", "/healthz", "", "Host: "+host); status != 200 {
			t.Errorf("/healthz for %q: %d", host, status)
		}
	}
}

// A caller without access gets no text that may contain an address, a user or a cause.
func TestReadyHidesTexts(t *testing.T) {
	l, _ := newLimiter(t)
	const cause = "redis://10.1.2.3:6379: user alice is refused"
	status := func() Status {
		return Status{Ready: true, Store: "redis", StoreError: cause, ReloadError: cause, Catalog: &CatalogStatus{Hash: "1f", ReloadError: cause}}
	}
	for _, test := range []struct {
		token  string
		header []string
		shown  bool
	}{
		{"", []string{"Host: 127.0.0.1:8082"}, true},
		{"", []string{"Host: 10.1.2.4:8082"}, false},
		{"secret", []string{"Host: 127.0.0.1"}, false},
		{"secret", []string{"Authorization: Bearer wrong"}, false},
		{"secret", []string{"Host: 10.1.2.4", "Authorization: Bearer secret"}, true},
	} {
		handler := NewAdmin(l, AdminOptions{Token: test.token, Status: status})
		code, answer, _ := call(t, handler, "GET", "/readyz", "", test.header...)
		want, not := cause, hidden
		if !test.shown {
			want, not = hidden, "alice"
		}
		if code != 200 || strings.Count(answer, want) != 3 || strings.Contains(answer, not) {
			t.Errorf("%q %q: %d %s", test.token, test.header, code, answer)
		}
	}
}

// Profiles always require the token and do not include the command line.
func TestProfiles(t *testing.T) {
	l, _ := newLimiter(t)
	const token = "Authorization: Bearer secret"
	for _, test := range []struct {
		token, path string
		status      int
		want        string
	}{
		{"secret", "/debug/pprof/", 200, "goroutine "},
		{"secret", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"secret", "/debug/pprof/heap", 200, ""},
		{"secret", "/debug/pprof/cmdline", 404, "not_found"},
		{"secret", "/debug/pprof/none", 404, "not_found"},
		{"", "/debug/pprof/", 401, "--admin-token-file"},
		{"", "/debug/pprof/heap", 401, "--admin-token-file"},
		{"", "/debug/pprof/profile?seconds=1", 401, "--admin-token-file"},
		{"", "/debug/pprof/trace?seconds=1", 401, "--admin-token-file"},
	} {
		handler := NewAdmin(l, AdminOptions{Token: test.token, Pprof: true})
		status, answer, _ := call(t, handler, "GET", test.path, "", token)
		if status != test.status || !strings.Contains(answer, test.want) || strings.Contains(answer, "cmdline\n") {
			t.Errorf("%q %s: %d %.200s", test.token, test.path, status, answer)
		}
		if test.token != "" {
			if status, _, _ := call(t, handler, "GET", test.path, ""); status != 401 {
				t.Errorf("%s without the token: %d", test.path, status)
			}
		}
	}
}

// Repeated wrong tokens do not fill the log.
func TestRefusalsAreLoggedQuietly(t *testing.T) {
	l, _ := newLimiter(t)
	for _, token := range []string{"secret", ""} {
		var log bytes.Buffer
		handler := NewAdmin(l, AdminOptions{Token: token, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 500 {
			call(t, handler, "GET", "/v1/limits", "", fmt.Sprintf("Authorization: Bearer %d", i), fmt.Sprintf("Host: h%d.example", i))
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "level=WARN msg=\"admin call refused\" path=/v1/limits peer=192.0.2.1") {
			t.Errorf("%d lines:\n%s", n, &log)
		}
	}
}

// TestRefusalsHideSecrets checks that the log of refused calls has only the routes of their paths.
func TestRefusalsHideSecrets(t *testing.T) {
	const routes = "/v1/keys/... /v1/load/... /v1/rules/... /v1/facts /v1/limits (unknown)"
	l, _ := newLimiter(t)
	none := http.NotFoundHandler()
	readers, err := access.Parse("callers", fmt.Appendf(nil, "ann read sha256:%x\n", sha256.Sum256([]byte("reader"))))
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]AdminOptions{
		"token": {Token: "secret"}, "host": {}, "role": {Access: func() *access.List { return readers }},
	} {
		o.Gauges, o.Rules, o.Records, o.RecordPaths, o.Reads = new(load.Gauges), none, none, []string{"/v1/keys"}, map[string]http.Handler{"/v1/facts": none}
		var got []string
		for _, path := range []string{"/v1/keys/SECRET?x=SECRET", "/v1/load/SECRET", "/v1/rules/SECRET", "/v1/facts?key=SECRET", "/v1/limits?SECRET", "/SECRET"} {
			var log bytes.Buffer
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			call(t, NewAdmin(l, o), "PUT", path, "", "Host: stranger.example", "Authorization: Bearer reader")
			call(t, NewAdmin(l, o), "GET", path, "", "Host: stranger.example", "Authorization: Bearer SECRET")
			if strings.Contains(log.String(), "SECRET") {
				t.Errorf("%s, %s: a secret is logged:\n%s", name, path, &log)
			}
			_, line, _ := strings.Cut(log.String(), " path=")
			route, _, _ := strings.Cut(line, " peer=")
			got = append(got, route)
		}
		if name == "host" && strings.Join(got, " ") != routes {
			t.Errorf("%s, want %s", got, routes)
		}
	}
}

// Requests from a web page take nothing, at either path.
func TestPagesAreRefused(t *testing.T) {
	l, _ := newLimiter(t)
	answered := 0
	handler := NewTraffic(l, TrafficOptions{JSON: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answered++; w.WriteHeader(200) })}).Handler()
	for _, test := range []struct {
		header string
		status int
	}{
		{"X: y", 200},
		{"Sec-Fetch-Site: none", 200},
		{"Sec-Fetch-Site: same-origin", 200},
		{"Origin: https://evil.example", 403},
		{"Origin: null", 403},
		{"Origin: http://localhost:8080", 403},
		{"Origin: ", 403},
		{"Sec-Fetch-Site: cross-site", 403},
		{"Sec-Fetch-Site: same-site", 403},
		{"Sec-Fetch-Site: ", 403},
	} {
		for _, path := range []string{CheckPath, JSONPath} {
			status, answer, _ := call(t, handler, "POST", path, fmt.Sprintf(short, "user", "page", 0), test.header)
			if status != test.status || status == 403 && !strings.Contains(answer, "a page in a browser sent this") {
				t.Errorf("%s %s: %d %s", path, test.header, status, answer)
			}
		}
	}
	if status, answer, _ := call(t, handler, "POST", CheckPath, fmt.Sprintf(short, "user", "page", 0), "Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"); status != 403 {
		t.Errorf("two fields: %d %s", status, answer)
	}
	if answered != 3 {
		t.Errorf("/json answered %d times, want 3", answered)
	}
}
