package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
)

// The body is problem details if the client prefers them.
func TestAccept(t *testing.T) {
	var time clock
	h := httplimit.Limit(time.store(), perHour(0), httplimit.Options{Status: 402})(ok)
	for accept, want := range map[string]string{
		"":                         "application/json",
		"*/*":                      "application/json",
		"application/problem+json": "application/problem+json",
		"application/problem+json;q=0.4, application/json;q=0.5": "application/json",
		"application/problem+json;q=0.6, application/json;q=0.5": "application/problem+json",
		"text/html": "application/json",
	} {
		w := get(h, "192.0.2.1:1", "/", "Accept", accept)
		if got := w.Header().Get("Content-Type"); got != want {
			t.Errorf("Accept: %s is answered with %s, want %s", accept, got, want)
		}
		if w.Code != 402 {
			t.Errorf("status %d, want 402", w.Code)
		}
	}
}

// If waiting never helps, the answer has no waiting time.
func TestNever(t *testing.T) {
	time := clock{1767225600_000_000}
	h := httplimit.Limit(time.store(), perHour(0), httplimit.Options{Reset: httplimit.Delta})(ok)
	expect(t, "envelope", dump(get(h, "192.0.2.1:1", "/")), `
429
Cache-Control: no-store
Content-Type: application/json
RateLimit-Policy: "0/1h";q=0;w=3600
RateLimit: "0/1h";r=0
X-RateLimit-Limit: 0
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 3600

{"error":{"code":"rate_limited","message":"Request quota exceeded. The limit never allows this request.","context":{"renewal":3600}}}`)
	expect(t, "problem", dump(get(h, "192.0.2.1:1", "/", "Accept", "application/problem+json")), `
429
Cache-Control: no-store
Content-Type: application/problem+json
RateLimit-Policy: "0/1h";q=0;w=3600
RateLimit: "0/1h";r=0
X-RateLimit-Limit: 0
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 3600

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Request quota exceeded. The limit never allows this request.","violated-policies":["0/1h"]}`)
}

// HEAD gets the headers of GET without the body, also over a real connection.
func TestHead(t *testing.T) {
	var time clock
	h := httplimit.Limit(time.store(), perHour(0), httplimit.Options{})(ok)
	want := get(h, "127.0.0.1:1", "/")
	r := request("127.0.0.1:1", "/")
	r.Method = http.MethodHead
	w := send(h, r)
	if w.Body.Len() > 0 || w.Code != 429 || w.Header().Get("Content-Length") != strconv.Itoa(want.Body.Len()) {
		t.Errorf("HEAD is answered with %s", dump(w))
	}

	server := httptest.NewServer(h)
	defer server.Close()
	answer, err := server.Client().Head(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 429 || answer.ContentLength != int64(want.Body.Len()) {
		t.Errorf("HEAD is answered with status %d, length %d; want 429, %d", answer.StatusCode, answer.ContentLength, want.Body.Len())
	}
}

func TestSkip(t *testing.T) {
	var time clock
	h := httplimit.Limit(time.store(), perHour(0), httplimit.Options{
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	})(ok)
	if w := get(h, "192.0.2.1:1", "/healthz"); w.Code != 200 || len(w.Header()) > 0 {
		t.Errorf("a request to be skipped is answered with %s", dump(w))
	}
	if w := get(h, "192.0.2.1:1", "/"); w.Code != 429 {
		t.Errorf("status %d, want 429", w.Code)
	}
}

// The handler gets the server's ResponseWriter, so it can open a websocket and flush.
func TestResponseWriterIsUntouched(t *testing.T) {
	var time clock
	var seen http.ResponseWriter
	h := httplimit.Limit(time.store(), perHour(10), httplimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { seen = w }))
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, request("192.0.2.1:1", "/")); seen != w {
		t.Error("the handler got another ResponseWriter")
	}

	upgrade := httplimit.Limit(time.store(), perHour(1), httplimit.Options{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = both.Flush()
		line, _ := both.ReadString('\n')
		fmt.Fprint(both, "you said ", line)
		_ = both.Flush()
	}))
	server := httptest.NewServer(upgrade)
	defer server.Close()
	r, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	conn, ok := answer.Body.(io.ReadWriter)
	if !ok || answer.StatusCode != 101 {
		t.Fatalf("upgrade is answered with status %d", answer.StatusCode)
	}
	fmt.Fprintln(conn, "hello")
	if line, _ := bufio.NewReader(conn).ReadString('\n'); line != "you said hello\n" {
		t.Errorf("read %q over the upgraded connection", line)
	}
	again, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	again.Body.Close()
	if again.StatusCode != 429 {
		t.Errorf("the second upgrade is answered with status %d, want 429", again.StatusCode)
	}
}

// A client that waits exactly as long as Retry-After, or as long as t of an answer with r=0,
// passes.
func TestObedienceIsRewarded(t *testing.T) {
	for _, spec := range []stint.Spec{
		{Algorithm: stint.FixedWindow, Requests: 3, Per: 7300 * time.Millisecond},
		{Algorithm: stint.FixedWindow, Requests: 3, Per: time.Minute, FromFirst: true},
		{Algorithm: stint.TokenBucket, Requests: 3, Per: 10 * time.Second, Burst: 5},
		{Algorithm: stint.TokenBucket, Requests: 3, Per: 7 * time.Second, Step: true},
		{Algorithm: stint.SlidingLog, Requests: 3, Per: 10 * time.Second, MinInterval: 1200 * time.Millisecond},
		{Algorithm: stint.SlidingWindow, Requests: 3, Per: 10 * time.Second, Blocks: 4},
	} {
		t.Run(spec.Algorithm.String(), func(t *testing.T) {
			time := clock{1767225600_000_000}
			h := httplimit.Limit(time.store(), stint.MustLimit(spec), httplimit.Options{})(ok)
			random := rand.New(rand.NewPCG(5, 6))
			denials := 0
			for range 2000 {
				w := get(h, "192.0.2.1:1", "/")
				_, after, exhausted := strings.Cut(field(w, "RateLimit"), ";r=0;t=")
				if w.Code == http.StatusOK && !exhausted || spec.MinInterval > 0 && w.Code == http.StatusOK {
					time.now += stint.Instant(random.IntN(2_000_000))
					continue
				}
				if w.Code != http.StatusOK {
					denials++
					after = w.Header().Get("Retry-After")
				}
				seconds, err := strconv.Atoi(after)
				if err != nil || seconds < 1 {
					t.Fatalf("after status %d is told to wait %q", w.Code, after)
				}
				time.now += stint.Instant(seconds) * 1_000_000
				if again := get(h, "192.0.2.1:1", "/"); again.Code != http.StatusOK {
					t.Fatalf("after status %d waited %d s, and is answered with %s", w.Code, seconds, dump(again))
				}
			}
			if spec.MinInterval > 0 && denials == 0 {
				t.Error("nothing was denied")
			}
		})
	}
}

// broken is a store that always fails.
type broken struct{}

var errBroken = errors.New("store is gone")

func (broken) Decide(context.Context, *stint.Call) error { return errBroken }

// If the store fails, the failure policy of the rule answers.
func TestStoreFailure(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: open, requests: 5, per: 1h}
  - key: path
    value: /login
    rate_limit: {name: strict, requests: 5, per: 1h, on_store_failure: deny}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{path: {}}]
`
	var errs []error
	var verdict stint.Decision
	var denier *rule.Rule
	report := func(_ *http.Request, err error) { errs = append(errs, err) }
	own := func(w http.ResponseWriter, _ *http.Request, v *limiter.Verdict) {
		verdict, denier = v.Decision, v.Rule
		w.WriteHeader(http.StatusTeapot)
	}
	for _, test := range []struct {
		name    string
		handler http.Handler
		path    string
		want    int
	}{
		{"rule, allow", byRules(t, broken{}, file, httplimit.Options{OnError: report}), "/", 200},
		{"rule, deny", byRules(t, broken{}, file, httplimit.Options{OnError: report}), "/login", 503},
		{"rule, own answer", byRules(t, broken{}, file, httplimit.Options{OnError: report, Denied: own}), "/login", 418},
		{"bare, allow", httplimit.Limit(broken{}, perHour(1), httplimit.Options{OnError: report})(ok), "/", 200},
		{"bare, nobody told", httplimit.Limit(broken{}, perHour(1), httplimit.Options{})(ok), "/", 200},
		{"bare, deny", httplimit.Limit(broken{}, perHour(1), httplimit.Options{OnError: report, OnStoreFailure: stint.Deny})(ok), "/", 503},
		{"bare, local", httplimit.Limit(broken{}, perHour(1), httplimit.Options{OnError: report, OnStoreFailure: rule.Local})(ok), "/", 503},
	} {
		if w := get(test.handler, "192.0.2.1:1", test.path); w.Code != test.want {
			t.Errorf("%s: status %d, want %d", test.name, w.Code, test.want)
		}
	}
	if len(errs) != 6 || !errors.Is(errs[0], errBroken) {
		t.Errorf("told of %v, want the store's error 6 times", errs)
	}
	if !verdict.Degraded || verdict.Allowed || denier == nil || denier.Name != "strict" {
		t.Errorf("own answer to %+v by %v, want a degraded refusal by strict", verdict, denier)
	}
	h := httplimit.Limit(broken{}, perHour(1), httplimit.Options{OnStoreFailure: stint.Deny})(ok)
	expect(t, "envelope", dump(get(h, "192.0.2.1:1", "/")), `
503
Cache-Control: no-store
Content-Type: application/json
Retry-After: 1

{"error":{"code":"limit_unavailable","message":"The limit could not be asked. Wait 1 second and try again.","context":{}}}`)
	expect(t, "problem", dump(get(h, "192.0.2.1:1", "/", "Accept", "application/problem+json")), `
503
Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: 1

{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"The limit could not be asked. Wait 1 second and try again."}`)
}

// raceDetector is true if tests run under the race detector.
var raceDetector bool

// An allowed request makes few allocations: its key, and the values of its headers.
func TestAllocations(t *testing.T) {
	var time clock
	for name, test := range map[string]struct {
		handler http.Handler
		most    float64
	}{
		"bare":             {httplimit.Limit(time.store(), perHour(1e6), httplimit.Options{Trusted: proxies})(ok), 3},
		"bare, no headers": {httplimit.Limit(time.store(), perHour(1e6), httplimit.Options{Trusted: proxies, Headers: []rule.Preset{rule.None}})(ok), 1},
		"rule":             {byRules(t, time.store(), benchmarkRules, httplimit.Options{Trusted: proxies}), 4},
	} {
		r := request("10.0.0.1:1", "/a", "X-Forwarded-For", "192.0.2.1", "X-User", "ann")
		w := &discard{http.Header{}, new(int)}
		got := testing.AllocsPerRun(1000, func() { test.handler.ServeHTTP(w, r) })
		if got > test.most && !raceDetector || *w.status != http.StatusOK {
			t.Errorf("%s: %v allocations, at most %v; status %d", name, got, test.most, *w.status)
		}
	}
}

const benchmarkRules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 4000000000, per: 1h}
  - key: user
    rate_limit: {requests: 4000000000, per: 1d}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{request_headers: {header_name: X-User, descriptor_key: user}}]
`

func BenchmarkAllowed(b *testing.B) {
	var time clock
	for _, test := range []struct {
		name    string
		handler http.Handler
	}{
		{"bare", httplimit.Limit(time.store(), perHour(4e9), httplimit.Options{})(ok)},
		{"bare, no headers", httplimit.Limit(time.store(), perHour(4e9), httplimit.Options{Headers: []rule.Preset{rule.None}})(ok)},
		{"two rules", byRules(b, time.store(), benchmarkRules, httplimit.Options{})},
		{"nothing", ok},
	} {
		b.Run(test.name, func(b *testing.B) {
			r := request("192.0.2.1:1", "/a", "X-User", "ann")
			w := &discard{http.Header{}, new(int)}
			b.ReportAllocs()
			for b.Loop() {
				test.handler.ServeHTTP(w, r)
			}
			if *w.status != http.StatusOK {
				b.Fatalf("status %d", *w.status)
			}
		})
	}
}
