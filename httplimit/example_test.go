package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"stint"
	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// handler is the handler that the examples limit.
var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

// show sends a request and prints the important parts of the answer.
func show(h http.Handler, header ...string) {
	w := get(h, "203.0.113.7:4711", "/", header...)
	fmt.Println(w.Code, "remaining:", field(w, "X-RateLimit-Remaining"), w.Body)
}

// One limit for each client.
func ExampleLimit() {
	store := memory.New(memory.Options{})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Hour})
	handler := httplimit.Limit(store, limit, httplimit.Options{})(handler)

	for range 3 {
		show(handler, "Accept", "application/problem+json")
	}
	// Output:
	// 200 remaining: 1 hello
	// 200 remaining: 0 hello
	// 429 remaining: 0 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Request quota exceeded. Wait 30 minutes and try again.","violated-policies":["2/1h"]}
}

// A limit behind proxies, by user if there is one, with a custom error body.
func ExampleLimit_options() {
	clock := func() stint.Instant { return stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }
	store := memory.New(memory.Options{Clock: clock})
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: 15 * time.Minute})
	login := httplimit.Limit(store, limit, httplimit.Options{
		Name:    "login",
		Trusted: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
		Key: func(r *http.Request) (string, bool) {
			user, _, ok := r.BasicAuth()
			return user, ok
		},
		Headers: []rule.Preset{rule.Draft03},
		Reset:   httplimit.UnixMillis,
		Code:    "too-many",
		Message: "Easy. Come back in {wait}.",
	})(handler)

	show(login, "Authorization", "Basic YW5uOnNlY3JldA==")
	show(login, "Authorization", "Basic YW5uOmd1ZXNz")
	show(login, "X-Forwarded-For", "198.51.100.1") // without a user: by address
	// Output:
	// 200 remaining: 0 hello
	// 429 remaining: 0 {"error":{"code":"too-many","message":"Easy. Come back in 15 minutes.","context":{"renewal":1767226500000}}}
	// 200 remaining: 0 hello
}

// The limits of a rule file. A service reads the file with rulefile.Load, and replaces the rules
// with the limiter's Swap when the file changes.
func ExampleNew() {
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 100, per: 1m}
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: {name: login, requests: 1, per: 1d, algorithm: sliding_log}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{path: {}}, {remote_address: {}}]
`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	server := httptest.NewServer(httplimit.New(l, "api", httplimit.Options{})(handler))
	defer server.Close()

	for _, path := range []string{"/", "/login", "/login"} {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer.Body.Close()
		fmt.Println(path, answer.StatusCode, answer.Header.Get("RateLimit-Policy"))
		if after := answer.Header.Get("Retry-After"); after != "" {
			fmt.Println("again after", after, "s")
		}
	}
	// Output:
	// / 200 "api/remote_address";q=100;w=60
	// /login 200 "login";q=1;w=86400, "api/remote_address";q=100;w=60
	// /login 429 "login";q=1;w=86400, "api/remote_address";q=100;w=60
	// again after 86400 s
}
