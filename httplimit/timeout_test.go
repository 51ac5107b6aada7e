package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
)

// TestTimeoutHandler lets a handler go on after http.TimeoutHandler has answered its request, between both phases:
// if the second phase then denies the request, nothing of another request is given back, and what the first phase
// settled is not given back again.
func TestTimeoutHandler(t *testing.T) {
	for _, answers := range []string{"", ", count: responses, statuses: [401]"} {
		store := memory.New(memory.Options{})
		l := limiter.New(store, newLimiter(t, nil, `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: address, requests: 50, per: 1h}
  - key: login
    descriptors:
      - key: remote_address
        rate_limit: {name: logins, requests: 50, per: 1h`+answers+`}
  - key: user
    value: eve
    rate_limit: {name: eve, requests: 1, per: 1h, on_store_failure: deny}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{generic_key: {descriptor_key: login, descriptor_value: x}}, {remote_address: {}}]
    - actions: [{identity: {}}]
`).Table(), limiter.Options{})
		options := httplimit.Options{Identity: func(r *http.Request) string { return r.Header.Get("X-User") }}
		behind := httplimit.New(l, "api", options)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		options.Phase = httplimit.Early
		late, ended := make(chan struct{}), make(chan struct{})
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Slow") != "" {
				<-late
				defer close(ended)
			}
			behind.ServeHTTP(w, r)
		})
		// Handlers that are not slow take no second, and slow ones end after their request was answered.
		first := httplimit.New(l, "api", options)
		gates := map[string]http.Handler{
			"1ms": first(http.TimeoutHandler(slow, time.Millisecond, "late")),
			"no":  first(slow),
		}
		used := func(entries ...rule.Entry) int64 {
			t.Helper()
			var v limiter.Verdict
			if err := l.Decide(t.Context(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: entries}}}, &v); err != nil {
				t.Fatal(err)
			}
			return v.Limit - v.Remaining
		}
		get(gates["no"], "192.0.2.9:1", "/", "X-User", "eve") // uses up the limit of the second phase
		const rounds = 20
		for range rounds {
			late, ended = make(chan struct{}), make(chan struct{})
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "192.0.2.1:1"
			r.Header.Set("X-User", "eve")
			r.Header.Set("X-Slow", "yes")
			w := httptest.NewRecorder()
			gates["1ms"].ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable {
				t.Fatalf("%d", w.Code)
			}
			get(gates["no"], "192.0.2.2:1", "/", "X-User", "ann")
			close(late)
			<-ended
		}
		for address, want := range map[string]int64{"192.0.2.1": rounds, "192.0.2.2": rounds} {
			by := rule.Entry{Key: "remote_address", Value: address}
			logins := want
			if answers != "" {
				logins = 0
			}
			if n, m := used(by), used(rule.Entry{Key: "login", Value: "x"}, by); n != want || m != logins {
				t.Errorf("answers %q, %s: %d used, want %d; %d logins, want %d", answers, address, n, want, m, logins)
			}
		}
	}
}
