package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// The health check of the traffic listener follows the function Healthy.
func TestHealthcheck(t *testing.T) {
	ready := false
	l := limiter.New(memory.New(memory.Options{}), nil, limiter.Options{})
	handler := NewTraffic(l, TrafficOptions{Healthy: func() bool { return ready }}).Handler()
	ask := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, HealthPath, nil))
		return w
	}
	if w := ask("GET"); w.Code != http.StatusInternalServerError || w.Body.Len() != 0 {
		t.Errorf("not ready: %d %q", w.Code, w.Body)
	}
	ready = true
	if w := ask("GET"); w.Code != http.StatusOK || w.Body.String() != "OK" {
		t.Errorf("ready: %d %q", w.Code, w.Body)
	}
	if w := ask("POST"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	w := httptest.NewRecorder()
	NewTraffic(l, TrafficOptions{}).Handler().ServeHTTP(w, httptest.NewRequest("GET", HealthPath, nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("without anybody to ask: %d", w.Code)
	}
}

// There is one line for each limit, in the format of envoyproxy/ratelimit.
func TestConfig(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(`domain: d
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: path
    value: /login
    shadow_mode: true
    rate_limit: {per: 15m, requests: 5, algorithm: token_bucket, burst: 7, on_store_failure: deny, name: login}
    descriptors:
      - key: friend
        rate_limit: {unlimited: true}
`)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	NewAdmin(l, AdminOptions{}).ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/rlconfig", nil))
	want := `d.user: unit=MINUTE requests_per_unit=20, shadow_mode: false, quota_mode: false, algorithm: fixed_window, on_store_failure: allow, name: d/user
d.path_/login: unit=15m0s requests_per_unit=5, shadow_mode: true, quota_mode: false, algorithm: token_bucket, burst: 7, on_store_failure: deny, name: login
d.path_/login.friend: unlimited, name: d/path=/login/friend
`
	if got := w.Body.String(); w.Code != http.StatusOK || got != want {
		t.Errorf("status %d:\n%s\nwant:\n%s", w.Code, got, want)
	}
	w = httptest.NewRecorder()
	NewAdmin(l, AdminOptions{Token: "secret"}).ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/rlconfig", nil))
	if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "login") {
		t.Errorf("without a token: status %d", w.Code)
	}
}
