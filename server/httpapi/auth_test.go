package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const authRules = `
domain: web
deny:
  - {cidrs: [203.0.113.66/32], name: villains}
descriptors:
  - key: remote_address
    rate_limit: {name: per-client, requests: 2, per: 1m}
  - key: path
    value: /own
    rate_limit: {name: own, requests: 0, per: 1m, denial: {status: 402, headers: {x-why: money, cache-control: private}, json: '{"rule": "{{.Rule}}"}'}}
  - key: method
    value: DELETE
    rate_limit: {name: none, requests: 0, per: 1m, headers: none}
  - key: host
    value: slow.example
    rate_limit: {name: slow, algorithm: leaky_bucket, requests: 1, per: 1s, burst: 3}
  - key: login
    rate_limit: {name: failures, requests: 1, per: 1m, count: responses, statuses: [401]}
  - key: cost
    rate_limit: {name: costly, requests: 10, per: 1m}
  - key: tenant
    rate_limit: {name: tenants, requests: 5, per: 1m, on_store_failure: deny}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{path: {}}]
    - actions: [{method: {}}]
    - actions: [{request_headers: {header_name: host, descriptor_key: host}}]
    - actions: [{query_parameters: {query_parameter_name: login, descriptor_key: login}}]
    - actions: [{request_headers: {header_name: x-tenant, descriptor_key: tenant}}]
    - actions: [{request_headers: {header_name: x-cost, descriptor_key: cost}}]
      cost: {header: x-cost}
`

var proxyPeer = netip.MustParseAddr("127.0.0.1")

// newAuthForTest returns the endpoints with authRules over a store.
func newAuthForTest(t testing.TB, o AuthOptions) *Traffic {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "web.yaml", Data: []byte(authRules)})
	if err != nil {
		t.Fatal(err)
	}
	o.Trusted = append(o.Trusted, netip.PrefixFrom(proxyPeer, 32))
	return NewTraffic(limiter.New(memory.New(memory.Options{}), table, limiter.Options{}), TrafficOptions{Auth: o})
}

// proxyAsks returns the call of a proxy for the request "METHOD URI", with header lines.
func proxyAsks(query, request string, lines ...string) *Request {
	method, uri, _ := strings.Cut(request, " ")
	h := http.Header{"X-Original-Method": {method}, "X-Original-Uri": {uri}}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return &Request{Method: http.MethodGet, Path: AuthPath, Query: query, Header: netHeaders(h), Peer: proxyPeer}
}

// field returns the value of a field of an answer; "" if missing.
func field(resp *Response, name string) string {
	for _, f := range resp.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

const fromClient = "X-Forwarded-For: 198.51.100.7"

func TestAuth(t *testing.T) {
	tests := []struct {
		name    string
		request *Request
		first   int // number of earlier calls, which pass
		status  int
		fields  string // some of the fields
		body    string // part of the body
	}{
		{"passes", proxyAsks("domain=web", "GET /", fromClient), 0, 200, `RateLimit: "per-client";r=1;t=60`, ""},
		{"denied", proxyAsks("domain=web", "GET /", fromClient), 2, 429, "Retry-After: 60\nX-Stint-Status: 429\nX-RateLimit-Limit: 2\nContent-Type: application/json", `"code":"rate_limited"`},
		{"denied by a status of the call", proxyAsks("domain=web&deny=403", "GET /", fromClient), 2, 403, "Retry-After: 60\nX-Stint-Status: 429", `"rate_limited"`},
		{"problem details", proxyAsks("domain=web", "GET /", fromClient, "Accept: application/problem+json"), 2, 429, "Content-Type: application/problem+json", `"status":429`},
		{"a list", proxyAsks("domain=web", "GET /", "X-Forwarded-For: 203.0.113.66"), 0, 403, "X-Stint-Status: 403\nRateLimit: ", `"denied"`},
		{"a list, by a status of the call", proxyAsks("domain=web&deny=401", "GET /", "X-Forwarded-For: 203.0.113.66"), 0, 401, "X-Stint-Status: 403", `"denied"`},
		{"a denial of its own", proxyAsks("domain=web", "GET /own", fromClient), 0, 402, "X-Stint-Status: 402\nX-Why: money\nCache-Control: private\nContent-Type: application/json", `{"rule": "own"}`},
		{"the path in one spelling", proxyAsks("domain=web", "GET //x/../%6Fwn?a=b", fromClient), 0, 402, "", ""},
		{"method", proxyAsks("domain=web", "DELETE /", fromClient), 0, 429, "RateLimit: \nRetry-After: ", "never allows"},
		{"no cost", proxyAsks("domain=web&deny=403", "GET /", fromClient, "X-Cost: junk"), 0, 403, "X-Stint-Status: 400", `"bad_cost"`},
		{"cost", proxyAsks("domain=web", "GET /", fromClient, "X-Cost: 11"), 0, 429, `Retry-After: `, "never allows"},
		{"answers that nobody sees count at once", proxyAsks("domain=web", "GET /?login=me", "X-Forwarded-For: 2001:db8::1"), 1, 429, "", ""},
		{"another domain has no limits", proxyAsks("domain=other", "GET /", fromClient), 5, 200, "RateLimit: ", ""},

		{"contradiction", proxyAsks("domain=web&deny=403", "GET /", fromClient, "X-Forwarded-Uri: /free"), 0, 403, "X-Stint-Status: 400", `X-Original-Uri or X-Forwarded-Uri is there twice`},
		{"no URI", &Request{Method: "GET", Path: AuthPath, Query: "domain=web", Header: netHeaders{}, Peer: proxyPeer}, 0, 400, "X-Stint-Status: 400", "let the proxy set X-Original-URI"},
		{"no client", proxyAsks("domain=web&deny=403", "GET /"), 0, 403, "X-Stint-Status: 400", "no header contains the client's address; let the proxy set X-Forwarded-For"},
		{"an empty client", proxyAsks("domain=web", "GET /", "X-Forwarded-For: "), 0, 400, "X-Stint-Status: 400", "does not contain the client"},
		{"a client that cannot be read", proxyAsks("domain=web", "GET /", "X-Forwarded-For: unknown"), 0, 400, "X-Stint-Status: 400", "does not contain the client"},
		{"a client that cannot be read behind a proxy", proxyAsks("domain=web", "GET /", "X-Forwarded-For: 198.51.100.7, junk, 127.0.0.1"), 0, 400, "X-Stint-Status: 400", "does not contain"},
		{"junk that the client sent itself", proxyAsks("domain=web", "GET /", "X-Forwarded-For: junk, 198.51.100.7"), 0, 200, "", ""},
		{"no domain", proxyAsks("", "GET /"), 0, 400, "", `"field":"domain"`},
		{"no status", proxyAsks("domain=web&deny=200", "GET /"), 0, 400, "", `"field":"deny"`},
		{"no time", proxyAsks("domain=web&wait=1", "GET /"), 0, 400, "", `"field":"wait"`},
		{"too long a time", proxyAsks("domain=web&wait=10.1s", "GET /"), 0, 400, "", "at most 10s"},
		{"no escape", proxyAsks("domain=%zz", "GET /"), 0, 400, "", `"field":"domain"`},
		{"unknown parameter", proxyAsks("domain=web&limit=3", "GET /"), 0, 400, "", "use domain, deny, deny-5xx, wait and reserve"},
		{"twice", proxyAsks("domain=web&domain=api", "GET /"), 0, 400, "", "at most once"},
		{"wrong method", &Request{Method: "TRACE", Path: AuthPath}, 0, 405, "Allow: GET", `"method_not_allowed"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				traffic := newAuthForTest(t, AuthOptions{})
				var resp Response
				for range test.first {
					if traffic.Serve(t.Context(), test.request, &resp); resp.Status != 200 {
						t.Fatalf("status %d before: %s", resp.Status, resp.Body)
					}
				}
				traffic.Serve(t.Context(), test.request, &resp)
				if resp.Status != test.status || !strings.Contains(string(resp.Body), test.body) || test.status == 200 && len(resp.Body) > 0 {
					t.Errorf("%d %s, want %d %s", resp.Status, resp.Body, test.status, test.body)
				}
				for line := range strings.Lines(test.fields) {
					name, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
					if got := field(&resp, name); got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
				if status := field(&resp, StatusHeader); (status == "") != (resp.Status == 200) && test.status != 405 && test.status != 400 {
					t.Errorf("%s: %q on a %d", StatusHeader, status, resp.Status)
				}
			})
		})
	}
}

// Settings are the defaults of query parameters.
func TestAuthSettings(t *testing.T) {
	traffic := newAuthForTest(t, AuthOptions{Domain: "web", Deny: 401})
	var resp Response
	for _, test := range []struct {
		query  string
		status int
	}{{"", 200}, {"", 200}, {"", 401}, {"deny=403", 403}, {"domain=other", 200}} {
		if traffic.Serve(t.Context(), proxyAsks(test.query, "GET /", fromClient), &resp); resp.Status != test.status {
			t.Errorf("?%s: %d, want %d: %s", test.query, resp.Status, test.status, resp.Body)
		}
	}
}

// Envoy calls with the method of its client.
func TestAuthMethods(t *testing.T) {
	traffic := newAuthForTest(t, AuthOptions{Domain: "web"})
	var resp Response
	for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PROPFIND"} {
		q := proxyAsks("", method+" /", fmt.Sprintf("X-Forwarded-For: 198.51.100.%d", len(method)))
		q.Method = method
		if traffic.Serve(t.Context(), q, &resp); resp.Status != 200 {
			t.Errorf("%s: %d %s", method, resp.Status, resp.Body)
		}
	}
}

// An untrusted peer is refused, whatever it sends, and nothing is charged.
func TestAuthUntrusted(t *testing.T) {
	traffic := newAuthForTest(t, AuthOptions{Domain: "web"})
	var resp Response
	stranger := proxyAsks("deny=401", "GET /", fromClient)
	for _, peer := range []netip.Addr{{}, netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("127.0.0.2")} {
		stranger.Peer = peer
		traffic.Serve(t.Context(), stranger, &resp)
		if resp.Status != 401 || field(&resp, StatusHeader) != "403" || !strings.Contains(string(resp.Body), "--trusted-proxies") {
			t.Errorf("%v: %d %v %s", peer, resp.Status, resp.Fields, resp.Body)
		}
	}
	traffic.Serve(t.Context(), proxyAsks("", "GET /", fromClient), &resp)
	if resp.Status != 200 || field(&resp, "X-RateLimit-Remaining") != "1" {
		t.Errorf("%d %v", resp.Status, resp.Fields)
	}
}

// A proxy that does not send the client's address is refused and reported; its own bucket is not
// charged.
func TestAuthWithoutClient(t *testing.T) {
	var told []string
	traffic := newAuthForTest(t, AuthOptions{Domain: "web", OnMisuse: func(peer netip.Addr, problem, _ string) {
		told = append(told, peer.String()+" "+problem)
	}})
	var resp Response
	for range 5 {
		for _, asked := range []*Request{proxyAsks("", "GET /"), proxyAsks("", "GET /", "X-Forwarded-For: _hidden")} {
			if traffic.Serve(t.Context(), asked, &resp); resp.Status != 400 {
				t.Fatalf("%d %s", resp.Status, resp.Body)
			}
		}
	}
	if want := proxyPeer.String() + " no header contains the client's address"; len(told) != 10 || told[0] != want {
		t.Errorf("%d times told: %q, want %q first", len(told), told, want)
	}
	own := proxyAsks("", "GET /", "X-Forwarded-For: "+proxyPeer.String())
	if traffic.Serve(t.Context(), own, &resp); resp.Status != 200 || field(&resp, "X-RateLimit-Remaining") != "1" {
		t.Errorf("the proxy's own bucket was used: %d %v", resp.Status, resp.Fields)
	}
}

// The client is the last address before the trusted proxies, whatever the client itself sent.
func TestAuthClient(t *testing.T) {
	traffic := newAuthForTest(t, AuthOptions{Domain: "web", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	var resp Response
	for i := range 4 {
		forged := fmt.Sprintf("X-Forwarded-For: 192.0.2.%d, 198.51.100.7, 10.0.0.1", i)
		traffic.Serve(t.Context(), proxyAsks("", "GET /", forged), &resp)
		if want := []int{200, 200, 429, 429}[i]; resp.Status != want {
			t.Errorf("request %d: %d, want %d", i, resp.Status, want)
		}
	}
}

// A request that a leaky bucket delays is answered after that delay. If the proxy would not wait so
// long, it is denied at once and nothing is charged.
func TestAuthHold(t *testing.T) {
	const host = "X-Forwarded-Host: slow.example"
	synctest.Test(t, func(t *testing.T) {
		traffic := newAuthForTest(t, AuthOptions{Domain: "web", Wait: DefaultWait})
		var resp Response
		for i, test := range []struct {
			query  string
			status int
			took   time.Duration
		}{
			{"", 200, 0},
			{"wait=800ms", 429, 0},
			{"", 200, time.Second},
			{"wait=2s", 200, time.Second},
			{"wait=1ms", 429, 0},
			{"wait=0s", 429, 0},
		} {
			began := time.Now()
			one := fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i)
			traffic.Serve(t.Context(), proxyAsks(test.query, "GET /", host, one), &resp)
			if took := time.Since(began); resp.Status != test.status || took.Round(time.Millisecond) != test.took {
				t.Errorf("%d: %d after %v, want %d after %v", i, resp.Status, took, test.status, test.took)
			}
			if test.status == 429 && field(&resp, "Retry-After") != "1" {
				t.Errorf("%d: %v", i, resp.Fields)
			}
		}
	})
}

// If the proxy disconnects while an answer is delayed, its units are given back.
func TestAuthGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := newAuthForTest(t, AuthOptions{Domain: "web", Wait: DefaultWait})
		var resp Response
		slow := proxyAsks("", "GET /", "X-Forwarded-Host: slow.example", fromClient)
		traffic.Serve(t.Context(), slow, &resp)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if traffic.Serve(ctx, slow, &resp); resp.Status != 429 {
			t.Errorf("status %d", resp.Status)
		}
		began := time.Now()
		traffic.Serve(t.Context(), slow, &resp)
		if took := time.Since(began).Round(time.Millisecond); resp.Status != 200 || took != 900*time.Millisecond {
			t.Errorf("%d after %v", resp.Status, took)
		}
	})
}

// If the store fails, the failure policy of the rule answers; if it denies, with the status that
// the call set.
func TestAuthStoreAway(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "web.yaml", Data: []byte(authRules)})
	if err != nil {
		t.Fatal(err)
	}
	var told []error
	away := limiter.New(brokenStore{errors.New("away")}, table, limiter.Options{})
	traffic := NewTraffic(away, TrafficOptions{Auth: AuthOptions{
		Domain: "web", Trusted: []netip.Prefix{netip.PrefixFrom(proxyPeer, 32)},
		OnError: func(err error) { told = append(told, err) },
	}})
	var resp Response
	if traffic.Serve(t.Context(), proxyAsks("deny=403", "GET /", fromClient), &resp); resp.Status != 200 || len(resp.Fields) != 0 {
		t.Errorf("allow: %d %v", resp.Status, resp.Fields)
	}
	traffic.Serve(t.Context(), proxyAsks("deny=403", "GET /", fromClient, "X-Tenant: 7"), &resp)
	if resp.Status != 403 || field(&resp, StatusHeader) != "503" || field(&resp, "Retry-After") != "1" {
		t.Errorf("deny: %d %v", resp.Status, resp.Fields)
	}
	for query, want := range map[string]int{"deny-5xx=429": 429, "deny=403&deny-5xx=429": 403, "": 503} {
		traffic.Serve(t.Context(), proxyAsks(query, "GET /", fromClient, "X-Tenant: 7"), &resp)
		if resp.Status != want || field(&resp, StatusHeader) != "503" {
			t.Errorf("?%s: %d %v", query, resp.Status, resp.Fields)
		}
	}
	if len(told) != 5 {
		t.Errorf("told of %v", told)
	}
}

// authForBench returns two calls of a proxy: one passes, one is denied.
func authForBench() map[string]*Request {
	ok := proxyAsks("domain=web&deny=403", "GET /orders/7?full=1", "X-Tenant: 7", "User-Agent: bench", "Accept: */*")
	return map[string]*Request{
		"unmatched": proxyAsks("domain=other", "GET /orders/7?full=1", fromClient),
		"denied":    proxyAsks("domain=web&deny=403", "GET /orders/7?full=1", fromClient, "User-Agent: bench", "Accept: */*"),
		"three":     ok,
	}
}

// TestAuthAllocations checks that a call allocates only the texts of its address, fields and
// status.
func TestAuthAllocations(t *testing.T) {
	for name, req := range authForBench() {
		traffic := newAuthForTest(t, AuthOptions{})
		var resp Response
		ask := func() { traffic.Serve(t.Context(), req, &resp) }
		if n := testing.AllocsPerRun(1000, ask); n > 3 && !raceDetector {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkAuth(b *testing.B) {
	for name, req := range authForBench() {
		b.Run(name, func(b *testing.B) {
			traffic := newAuthForTest(b, AuthOptions{})
			var resp Response
			b.ReportAllocs()
			for b.Loop() {
				traffic.Serve(b.Context(), req, &resp)
			}
		})
	}
}
