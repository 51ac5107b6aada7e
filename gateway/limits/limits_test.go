package limits_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"stint/internal/testkit"
)

// rules are those of most tests here. The password hash is of "secret", at the lowest cost.
const (
	rules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {name: address, requests: 10, per: 2h}
  - key: login
    descriptors:
      - key: remote_address
        rate_limit: {name: logins, requests: 3, per: 2h, count: responses, statuses: [401]}
  - key: user
    rate_limit: {name: mine, requests: 2, per: 2h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{generic_key: {descriptor_key: login, descriptor_value: x}}, {remote_address: {}}]
    - actions: [{identity: {}}]
`
	hash = "$2a$04$YVufIslRowMrut9q9ON/ieLDOJD//St4ySDBDTcpuZ3VNh6cYLXka"

	home       = `{"key": "remote_address", "value": "127.0.0.1"}`
	homeLogins = `{"key": "login", "value": "x"}, ` + home
	ann        = `{"key": "user", "value": "ann"}`
)

const site = `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
	}
}
http://ADDRESS {
	header Access-Control-Allow-Origin *
	stint_early api
	basic_auth /private* {
		ann ` + hash + `
		bob ` + hash + `
	}
	stint api
	respond "for {http.auth.user.id}"
	%s
}
`

// TestLogins is A-8: a failed login counts on the rule of logins, a success does not; the status is the
// one that the client gets. What the first directive took of a failed login stays; what it took of a
// request that the second one denies is given back.
func TestLogins(t *testing.T) {
	type step struct {
		path, user            string
		status                int
		address, logins, mine int64 // used after it
	}
	for _, tt := range []struct {
		name, errors string
		steps        []step
	}{
		{"plain", "", []step{
			{"/private", "ann:secret", 200, 1, 0, 1},
			{"/private", "ann:wrong", 401, 2, 1, 1},
			{"/private", "", 401, 3, 2, 1},
			{"/", "", 200, 4, 2, 1},
			{"/private", "ann:secret", 200, 5, 2, 2},
			{"/private", "ann:secret", 429, 5, 2, 2}, // by user: undone
			{"/private", "bob:secret", 200, 6, 2, 2},
			{"/private", "ann:wrong", 401, 7, 3, 2},
			{"/private", "bob:secret", 429, 7, 3, 2}, // too many failed logins: before any password is hashed
			{"/", "", 429, 7, 3, 2},
		}},
		{"a page for errors", "handle_errors {\n\t\trespond \"sorry\"\n\t}", []step{
			{"/private", "ann:wrong", 401, 1, 1, 0},
			{"/private", "ann:secret", 200, 2, 1, 1},
		}},
		{"another status for errors", "handle_errors {\n\t\trespond \"sorry\" 403\n\t}", []step{
			{"/private", "ann:wrong", 403, 1, 0, 0},
		}},
		{"a redirect for errors", "handle_errors 401 {\n\t\tredir * /login\n\t}", []step{
			{"/private", "ann:wrong", 302, 1, 0, 0},
			{"/private", "ann:secret", 200, 2, 0, 1},
		}},
		{"error routes that fail", "handle_errors {\n\t\terror 404\n\t}", []step{
			{"/private", "ann:wrong", 401, 1, 1, 0}, // Caddy sends the first error's
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := start(t, fmt.Sprintf(site, tt.errors), map[string]string{"rules.yaml": rules})
			for i, s := range tt.steps {
				var a reply
				if s.user == "" {
					a = g.get(s.path)
				} else {
					a = g.get(s.path, ":user", s.user)
				}
				address, logins, mine := g.used("address", home), g.used("logins", homeLogins), g.used("mine", ann)
				if a.status != s.status || address != s.address || logins != s.logins || mine != s.mine {
					t.Fatalf("step %d, %+v: %+v, used %d, %d, %d", i, s, a, address, logins, mine)
				}
				if a.header.Get("Access-Control-Allow-Origin") != "*" {
					t.Errorf("step %d: no CORS header: %v", i, a.header)
				}
			}
		})
	}
}

// TestForwardAuth checks that a denial by a server that authenticates counts as a failed login.
func TestForwardAuth(t *testing.T) {
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "good" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(auth.Close)
	g := start(t, `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
	}
}
http://ADDRESS {
	stint_early api
	forward_auth `+strings.TrimPrefix(auth.URL, "http://")+` {
		uri /
	}
	stint api
	respond ok
}
`, map[string]string{"rules.yaml": rules})
	for i, s := range []struct {
		token  string
		status int
		logins int64
	}{{"good", 200, 0}, {"bad", 401, 1}, {"good", 200, 1}, {"bad", 401, 2}, {"bad", 401, 3}, {"good", 429, 3}} {
		if a := g.get("/", "X-Token", s.token); a.status != s.status || g.used("logins", homeLogins) != s.logins {
			t.Errorf("step %d, %+v: %+v, %d logins", i, s, a, g.used("logins", homeLogins))
		}
	}
}

// TestCandidate checks that the name in a login that failed is no identity, also where error routes
// are limited.
func TestCandidate(t *testing.T) {
	g := start(t, fmt.Sprintf(site, "handle_errors {\n\t\tstint api\n\t\trespond sorry\n\t}"), map[string]string{"rules.yaml": rules})
	for range 2 {
		if a := g.get("/private", ":user", "ann:wrong"); a.status != http.StatusUnauthorized {
			t.Errorf("%+v", a)
		}
	}
	if n := g.used("mine", ann); n != 0 {
		t.Errorf("failed logins used %d units of the name that they claim", n)
	}
}

// TestOneDirective checks that stint alone decides by all elements of a route without stint_early, and
// that routes and hosts have rules of their own.
func TestOneDirective(t *testing.T) {
	g := start(t, `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml DIR/other.yaml
	}
}
http://ADDRESS {
	stint /free* other
	@api not path /free*
	basic_auth @api {
		ann `+hash+`
	}
	stint @api api
	respond ok
}
`, map[string]string{"rules.yaml": rules, "other.yaml": "domain: other\ndescriptors: [{key: host, rate_limit: {requests: 1, per: 2h, denial: {status: 420, html: wait, headers: {X-Own: '1'}}}}]\nhttp: {rate_limits: [{actions: [{host: {}}]}]}\n"})
	if a := g.get("/", ":user", "ann:secret"); a.status != 200 || g.used("address", home) != 1 || g.used("mine", ann) != 1 {
		t.Errorf("all elements: %+v", a)
	}
	g.get("/free")
	if a := g.get("/free"); a.status != 420 || a.body != "wait" || a.header.Get("X-Own") != "1" {
		t.Errorf("a denial of its own: %+v", a)
	}
	g.get("/", ":user", "ann:secret")
	a := g.get("/", ":user", "ann:secret", "Accept", "application/problem+json")
	if a.status != 429 || a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(a.body, `"violated-policies":["mine"]`) || a.header.Get("Retry-After") == "" {
		t.Errorf("problem details: %+v", a)
	}
}

// TestRetries checks that a retry of the proxy is no new request, whether the first upstream refuses the
// connection or breaks it, and whether limits count requests or responses.
func TestRetries(t *testing.T) {
	var broken, served atomic.Int32
	breaking := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		broken.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(breaking.Close)
	working := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(working.Close)
	refusing := testkit.Address(t)
	g := start(t, `
{
	GLOBAL
	stint {
		rules DIR/rules.yaml
	}
}
http://ADDRESS {
	log {
		output file DIR/access.log
	}
	log_append retries {http.reverse_proxy.retries}
	stint_early api
	basic_auth * {
		ann `+hash+`
	}
	stint api
	reverse_proxy `+refusing+" "+strings.TrimPrefix(breaking.URL, "http://")+" "+strings.TrimPrefix(working.URL, "http://")+` {
		lb_policy first
		lb_retries 5
		lb_try_interval 10ms
		fail_duration 1h
	}
}
`, map[string]string{"rules.yaml": rules})
	a := g.get("/", ":user", "ann:secret")
	if a.status != http.StatusUnauthorized || broken.Load() != 1 || served.Load() != 1 {
		t.Errorf("%+v, %d broken, %d served: want one of each", a, broken.Load(), served.Load())
	}
	if address, logins, mine := g.used("address", home), g.used("logins", homeLogins), g.used("mine", ann); address != 1 || logins != 1 || mine != 1 {
		t.Errorf("%d units by address, %d by answer, %d by user for one request of three tries", address, logins, mine)
	}
	g.Stop()
	if log := g.Read("access.log"); !strings.Contains(log, `"retries":2`) && !strings.Contains(log, `"retries":"2"`) {
		t.Errorf("not two retries in the access log:\n%s", log)
	}
}

// TestShows checks the access log, the placeholders, the metrics and the headers of a directive.
func TestShows(t *testing.T) {
	g := start(t, `
{
	GLOBAL
	metrics
	stint {
		rules DIR/rules.yaml
	}
}
http://ADDRESS {
	log {
		output file DIR/access.log
	}
	header >X-Decided "{http.stint.rule} {http.stint.verdict}"
	stint api {
		headers draft03
		reset delta
		policy_header X-Policy
		status 420
		code slow_down
		message "Wait."
	}
	respond ok
}
`, map[string]string{"rules.yaml": strings.ReplaceAll(rules, "requests: 10", "requests: 1")})
	if a := g.get("/"); a.status != 200 || a.header.Get("X-Decided") != "address allowed" || a.header.Get("X-Policy") != `"address"` || a.header.Get("RateLimit") != "" {
		t.Errorf("%+v", a)
	}
	if a := g.get("/"); a.status != 420 || a.header.Get("X-Decided") != "address rate_limited" || !strings.Contains(a.body, `"code":"slow_down","message":"Wait."`) {
		t.Errorf("%+v", a)
	}
	metrics := g.ask(http.MethodGet, "/metrics", "").body
	for _, want := range []string{`stint_reloads_total{`, `caddy_http_requests_total`, `rule="address"`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics:\n%s", want, metrics)
		}
	}
	g.Stop()
	log := g.Read("access.log")
	for _, want := range []string{`"stint":{"rule":"address","verdict":"allowed"}`, `"stint":{"rule":"address","verdict":"rate_limited"}`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in the access log:\n%s", want, log)
		}
	}
}
