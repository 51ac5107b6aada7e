package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const rules = `
domain: api
exempt:
  - {key: user, values: [root]}
deny:
  - {key: user, values: [mallory]}
descriptors:
  - key: user
    rate_limit: {algorithm: token_bucket, requests: 5, per: 1s, burst: 5}
    descriptors:
      - key: path
        value: /login
        rate_limit: {name: "log\"in", algorithm: fixed_window, requests: 2, per: 1m}
  - key: queue
    rate_limit: {algorithm: leaky_bucket, requests: 10, per: 1s, burst: 1}
  - key: free
    rate_limit: {unlimited: true}
  - key: shadow
    rate_limit: {requests: 1, per: 1m}
    shadow_mode: true
`

// zero is the initial time of newLimiter's clock.
var zero = stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// newLimiter returns a limiter with rules over a store in memory, and its clock.
func newLimiter(t testing.TB) (*limiter.Limiter, *atomic.Int64) {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatal(err)
	}
	var clock atomic.Int64
	clock.Store(int64(zero))
	store := memory.New(memory.Options{Clock: func() stint.Instant { return stint.Instant(clock.Load()) }})
	return limiter.New(store, table, limiter.Options{}), &clock
}

// headersForTest returns a header with at most a content type.
func headersForTest(kind string) Headers {
	if kind == "" {
		return netHeaders{}
	}
	return netHeaders{"Content-Type": {kind}}
}

// Parts of expected replies; short is one descriptor {key: value}.
const (
	short   = `{"domain":"api","descriptors":[{"entries":[{"key":"%s","value":"%s"}],"cost":%d}]}`
	alone   = `,"matched":false`
	nothing = `{"allowed":true,"rule":"","limit":null,"remaining":null,"retry_after_ms":0,"reset_after_ms":0,"delay_ms":0,"degraded":false,"over":false`
)

// atMost returns a body that asks for at most some units.
func atMost(key, value string, most int) string {
	return strings.TrimSuffix(fmt.Sprintf(short, key, value, most), "}") + `,"at_most":true}`
}

// once returns a reply whose only result equals the overall result.
func once(fields string) string {
	return fields + `,"results":[` + fields + "}]}\n"
}

// replies are requests in order, with the time between them.
var replies = []struct {
	name, after, body, want string
}{
	{
		"take", "0s", fmt.Sprintf(short, "user", "42", 1),
		once(`{"allowed":true,"rule":"api/user","limit":5,"remaining":4,"retry_after_ms":0,"reset_after_ms":200,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"take the rest", "0s", fmt.Sprintf(short, "user", "42", 4),
		once(`{"allowed":true,"rule":"api/user","limit":5,"remaining":0,"retry_after_ms":0,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"denied", "0s", fmt.Sprintf(short, "user", "42", 1),
		once(`{"allowed":false,"rule":"api/user","limit":5,"remaining":0,"retry_after_ms":200,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited"`),
	},
	{
		"rounded up", "100us", fmt.Sprintf(short, "user", "42", 1),
		once(`{"allowed":false,"rule":"api/user","limit":5,"remaining":0,"retry_after_ms":200,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited"`),
	},
	{
		"look", "0s", fmt.Sprintf(short, "user", "42", 0),
		once(`{"allowed":true,"rule":"api/user","limit":5,"remaining":0,"retry_after_ms":0,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"never", "0s", fmt.Sprintf(short, "user", "7", 6),
		once(`{"allowed":false,"rule":"api/user","limit":5,"remaining":5,"retry_after_ms":-1,"reset_after_ms":0,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited"`),
	},
	{
		"unmatched", "0s", fmt.Sprintf(short, "nobody", "7", 1), nothing + alone + `,"results":[` + nothing + alone + "}]}\n",
	},
	{
		"exempt", "0s", fmt.Sprintf(short, "user", "root", 9), once(strings.Replace(nothing, `"rule":""`, `"rule":"api/exempt#1"`, 1)),
	},
	{
		"denied by a list", "0s", fmt.Sprintf(short, "user", "mallory", 1),
		once(`{"allowed":false,"rule":"api/deny#1","limit":0,"remaining":0,"retry_after_ms":-1,"reset_after_ms":0,"delay_ms":0,"degraded":false,"over":false,"reason":"denied"`),
	},
	{
		"unknown domain", "0s", `{"domain":"other","descriptors":[{"entries":[{"key":"user","value":"42"}]},{"entries":[{"key":"k","value":""}]}]}`,
		nothing + alone + `,"results":[` + nothing + alone + "}," + nothing + alone + "}]}\n",
	},
	{
		"unlimited", "0s", fmt.Sprintf(short, "free", "7", uint32(4294967295)),
		once(strings.Replace(nothing, `"rule":""`, `"rule":"api/free"`, 1)),
	},
	{
		"held", "0s", fmt.Sprintf(short, "queue", "q", 2),
		once(`{"allowed":true,"rule":"api/queue","limit":2,"remaining":0,"retry_after_ms":0,"reset_after_ms":200,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"held for a while", "99500us", fmt.Sprintf(short, "queue", "q", 1),
		once(`{"allowed":false,"rule":"api/queue","limit":2,"remaining":0,"retry_after_ms":1,"reset_after_ms":101,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited"`),
	},
	{
		"held at last", "500us", fmt.Sprintf(short, "queue", "q", 1),
		once(`{"allowed":true,"rule":"api/queue","limit":2,"remaining":0,"retry_after_ms":0,"reset_after_ms":200,"delay_ms":100,"degraded":false,"over":false`),
	},
	{
		"shadow has no part in the whole", "0s", fmt.Sprintf(short, "shadow", "s", 2),
		nothing + `,"results":[{"allowed":true,"rule":"api/shadow","limit":1,"remaining":1,"retry_after_ms":0,"reset_after_ms":59900,"delay_ms":0,"degraded":false,"over":false}]}` + "\n",
	},
	{
		"at most, all of it", "0s", atMost("user", "most", 2),
		once(`{"allowed":true,"charged":2,"rule":"api/user","limit":5,"remaining":3,"retry_after_ms":0,"reset_after_ms":400,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"at most, the rest", "0s", atMost("user", "most", 2000),
		once(`{"allowed":true,"charged":3,"rule":"api/user","limit":5,"remaining":0,"retry_after_ms":0,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"at most, denied", "0s", atMost("user", "most", 2000),
		once(`{"allowed":false,"charged":0,"rule":"api/user","limit":5,"remaining":0,"retry_after_ms":200,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited"`),
	},
	{
		"at most, exempt", "0s", atMost("user", "root", 9),
		once(strings.Replace(strings.Replace(nothing, `"rule":""`, `"rule":"api/exempt#1"`, 1), `true,`, `true,"charged":9,`, 1)),
	},
	{
		"at most, of a limit of its own", "0s", `{"key":"k","limit":{"algorithm":"token_bucket","requests":5,"per":"1s"},"cost":9,"at_most":true}`,
		once(`{"allowed":true,"charged":5,"rule":"","limit":5,"remaining":0,"retry_after_ms":0,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"two as one", "0s",
		`{"domain":"api","cost":2,"descriptors":[{"entries":[{"key":"user","value":"8"}]},{"entries":[{"key":"user","value":"8"},{"key":"path","value":"/login"}],"cost":3}]}`,
		`{"allowed":false,"rule":"log\"in","limit":2,"remaining":2,"retry_after_ms":-1,"reset_after_ms":59900,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited","results":[` +
			`{"allowed":true,"rule":"api/user","limit":5,"remaining":5,"retry_after_ms":0,"reset_after_ms":0,"delay_ms":0,"degraded":false,"over":false},` +
			`{"allowed":false,"rule":"log\"in","limit":2,"remaining":2,"retry_after_ms":-1,"reset_after_ms":59900,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited"}]}` + "\n",
	},
	{
		"a limit in the request", "0s", `{"key":"user:42","limit":{"algorithm":"token_bucket","requests":5,"per":"1s","burst":5},"cost":5}`,
		once(`{"allowed":true,"rule":"","limit":5,"remaining":0,"retry_after_ms":0,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"the same, known", "0s", `{"key":"user:42","limit":{"algorithm":"token_bucket","requests":5,"per":"1s","burst":5},"cost":5}`,
		once(`{"allowed":false,"rule":"","limit":5,"remaining":0,"retry_after_ms":1000,"reset_after_ms":1000,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited"`),
	},
	{
		"another algorithm is another bucket", "0s", `{"key":"user:42","limit":{"requests":5,"per":"1m"}}`,
		once(`{"allowed":true,"rule":"","limit":5,"remaining":4,"retry_after_ms":0,"reset_after_ms":59900,"delay_ms":0,"degraded":false,"over":false`),
	},
	{
		"nothing may pass", "0s", `{"key":"k","limit":{"algorithm":"sliding_log","requests":0,"per":"1m"}}`,
		once(`{"allowed":false,"rule":"","limit":0,"remaining":0,"retry_after_ms":-1,"reset_after_ms":0,"delay_ms":0,"degraded":false,"over":false,"reason":"rate_limited"`),
	},
	{
		"unlimited in the request", "0s", `{"key":"k","limit":{"unlimited":true}}`, once(nothing),
	},
}

func TestReplies(t *testing.T) {
	l, clock := newLimiter(t)
	traffic := NewTraffic(l, TrafficOptions{})
	var resp Response // reused, as an HTTP server does
	for _, test := range replies {
		t.Run(test.name, func(t *testing.T) {
			after, err := time.ParseDuration(test.after)
			if err != nil {
				t.Fatal(err)
			}
			clock.Add(after.Microseconds())
			traffic.Serve(t.Context(), &Request{Method: "POST", Path: CheckPath, Header: headersForTest("application/json"), Body: []byte(test.body)}, &resp)
			if resp.Status != 200 {
				t.Errorf("status %d", resp.Status)
			}
			if got := string(resp.Body); got != test.want {
				t.Errorf("replied\n%swant\n%s", got, test.want)
			}
			if fmt.Sprint(resp.Fields) != "[{Content-Type application/json}]" {
				t.Errorf("fields %v", resp.Fields)
			}
		})
	}
}

// brokenStore fails every call.
type brokenStore struct{ err error }

func (s brokenStore) Decide(context.Context, *stint.Call) error { return s.err }

func TestRefusals(t *testing.T) {
	l, _ := newLimiter(t)
	broken := func(err error) *limiter.Limiter {
		return limiter.New(brokenStore{err}, l.Table(), limiter.Options{})
	}
	good := fmt.Sprintf(short, "user", "1", 1)
	for _, test := range []struct {
		name               string
		limiter            *limiter.Limiter
		method, path, kind string
		body               string
		status             int
		fields, want       string
	}{
		{
			"wrong method", l, "GET", "/v1/check", "", "", 405, "{Allow POST} ",
			`{"error":{"code":"method_not_allowed","message":"\"GET\" is not a method of this path; use POST","context":{}}}`,
		},
		{
			"unknown path", l, "POST", "/v1/check/", "", good, 404, "",
			`{"error":{"code":"not_found","message":"nothing is at \"/v1/check/\"; the questions are POST /v1/check, POST /v1/settle and GET /v1/auth","context":{}}}`,
		},
		{
			"content type", l, "POST", "/v1/check", "text/xml; charset=utf-8", good, 415, "",
			`{"error":{"code":"unsupported_media_type","message":"the content type is \"text/xml; charset=utf-8\"; send JSON as application/json","context":{}}}`,
		},
		{
			"bad body", l, "POST", "/v1/check", "", `{"domain": "a", "x": 1}`, 400, "",
			`{"error":{"code":"bad_request","message":"unknown field \"x\"; known here are domain, descriptors, key, limit, cost, at_most, checks, reserve","context":{"offset":16}}}`,
		},
		{
			"bad field", l, "POST", "/v1/check", "", `{"domain": 5}`, 400, "",
			`{"error":{"code":"bad_request","message":"domain: a number where a string belongs; give a string, or leave it out where it may be left out","context":{"field":"domain","offset":11}}}`,
		},
		{
			"large body", l, "POST", "/v1/check", "", strings.Repeat(" ", MaxBody+1), 413, "",
			`{"error":{"code":"body_too_large","message":"the body is larger than 1048576 bytes; send several requests","context":{}}}`,
		},
		{
			"at most of a limit that overdraws", l, "POST", "/v1/check", "", `{"key":"k","limit":{"requests":5,"per":"1s","overdraw":true},"at_most":true}`, 400, "",
			`{"error":{"code":"bad_request","message":"at_most: the limit overdraws: it is charged the whole cost, whatever is left; leave out at_most","context":{"field":"at_most"}}}`,
		},
		{
			"at most of a key twice", l, "POST", "/v1/check", "",
			`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"1"}]},{"entries":[{"key":"user","value":"1"}]}],"at_most":true}`, 400, "",
			`{"error":{"code":"bad_request","message":"at_most: two descriptors take from the same key; leave out at_most","context":{"field":"at_most"}}}`,
		},
		{
			"no decision", broken(errors.New("connection refused to 10.0.0.1")), "POST", "/v1/check", "", good, 503, "",
			`{"error":{"code":"no_decision","message":"the store could not decide; try again, or set on_store_failure in the rule for this case","context":{}}}`,
		},
		{
			"no decision in time", broken(context.DeadlineExceeded), "POST", "/v1/check", "", good, 503, "",
			`{"error":{"code":"no_decision","message":"the store did not decide in time; try again, or set on_store_failure in the rule for this case","context":{}}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var resp Response
			traffic := NewTraffic(test.limiter, TrafficOptions{})
			traffic.Serve(t.Context(), &Request{Method: test.method, Path: test.path, Header: headersForTest(test.kind), Body: []byte(test.body)}, &resp)
			if resp.Status != test.status {
				t.Errorf("status %d, want %d", resp.Status, test.status)
			}
			if got := string(resp.Body); got != test.want+"\n" {
				t.Errorf("replied\n%swant\n%s", got, test.want)
			}
			if got, want := fmt.Sprint(resp.Fields), "["+test.fields+"{Content-Type application/json}]"; got != want {
				t.Errorf("fields %s, want %s", got, want)
			}
		})
	}
}

// Besides application/json, a missing type and curl's default type are accepted.
func TestContentTypes(t *testing.T) {
	l, _ := newLimiter(t)
	traffic := NewTraffic(l, TrafficOptions{})
	for kind, want := range map[string]int{
		"": 200, "application/json": 200, "Application/JSON ; charset=utf-8": 200, "application/x-www-form-urlencoded": 200,
		"text/plain": 415, "application/jsonp": 415, "multipart/form-data; boundary=x": 415,
	} {
		var resp Response
		traffic.Serve(t.Context(), &Request{Method: "POST", Path: CheckPath, Header: headersForTest(kind), Body: fmt.Appendf(nil, short, "user", "1", 0)}, &resp)
		if resp.Status != want {
			t.Errorf("%q: status %d, want %d", kind, resp.Status, want)
		}
	}
}

// Concurrent callers share the endpoints: exactly the limit passes, and answers are not mixed up.
func TestConcurrent(t *testing.T) {
	l, _ := newLimiter(t)
	traffic := NewTraffic(l, TrafficOptions{})
	var allowed atomic.Int64
	var group sync.WaitGroup
	for g := range 16 {
		group.Go(func() {
			var resp Response
			for i := range 200 {
				user := fmt.Sprint(i % 10)
				body := fmt.Appendf(nil, short, "user", user, 1)
				if g%2 == 1 {
					body = fmt.Appendf(nil, `{"key":%q,"limit":{"requests":%d,"per":"1h"}}`, user, 1000+i%7)
				}
				traffic.Serve(t.Context(), &Request{Method: "POST", Path: CheckPath, Header: headersForTest(""), Body: body}, &resp)
				answer := string(resp.Body)
				switch {
				case resp.Status != 200:
					t.Errorf("status %d", resp.Status)
				case g%2 == 1 && !strings.HasPrefix(answer, fmt.Sprintf(`{"allowed":true,"rule":"","limit":%d,`, 1000+i%7)):
					t.Errorf("answered %s", answer)
				case g%2 == 0 && !strings.Contains(answer, `"rule":"api/user","limit":5,`):
					t.Errorf("answered %s", answer)
				case g%2 == 0 && strings.HasPrefix(answer, `{"allowed":true`):
					allowed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if got := allowed.Load(); got != 50 {
		t.Errorf("%d passed of 10 users with 5 each", got)
	}
}

// requestsForBench are the requests of the benchmarks.
var requestsForBench = []struct{ name, body string }{
	{"rules", fmt.Sprintf(short, "user", "42", 1)},
	{"escaped", fmt.Sprintf(short, "user", `4\u0032\n`, 1)},
	{"inline", `{"key":"user:42","limit":{"algorithm":"token_bucket","requests":5,"per":"1s","burst":5},"cost":1}`},
}

// raceDetector is true if tests run under the race detector.
var raceDetector bool

// TestNoAllocation checks that a request does not allocate once buffers have grown.
func TestNoAllocation(t *testing.T) {
	for _, request := range requestsForBench {
		t.Run(request.name, func(t *testing.T) {
			serve := serveForTest(t, request.body)
			if n := testing.AllocsPerRun(1000, serve); n > 0 && !raceDetector {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func BenchmarkServe(b *testing.B) {
	for _, request := range requestsForBench {
		b.Run(request.name, func(b *testing.B) {
			serve := serveForTest(b, request.body)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

// serveForTest returns a function that sends body to the endpoints.
func serveForTest(tb testing.TB, body string) func() {
	l, _ := newLimiter(tb)
	traffic := NewTraffic(l, TrafficOptions{})
	buf := make([]byte, len(body))
	req := Request{Method: "POST", Path: CheckPath, Header: headersForTest("application/json")}
	var resp Response
	ctx := context.Background()
	return func() {
		req.Body = append(buf[:0], body...)
		traffic.Serve(ctx, &req, &resp)
		if resp.Status != 200 {
			tb.Fatalf("status %d: %s", resp.Status, resp.Body)
		}
	}
}
