package httplimit_test

import (
	"fmt"
	"net/http"
	"testing"

	"stint/httplimit"
	"stint/limiter"
)

const listRules = `
domain: api
exempt:
  - {cidrs: ["2001:db8:1::/48"]}
  - {header: x-probe, values: [blue]}
deny:
  - {cidrs: [198.51.100.0/24], status: 429}
  - {header: host, values: [old.example.com]}
  - {key: user, values: [mallory], name: banned}
descriptors:
  - key: user
    rate_limit: {requests: 1, per: 1h}
  - key: remote_address
    rate_limit: {requests: 2, per: 1h}
http:
  rate_limits:
    - actions: [{first_of: [{basic_auth_user: {descriptor_key: user}}, {remote_address: {}}]}]
`

// A client on an exempt list passes uncounted, and one on a deny list is denied at once. Forwarded
// addresses count only behind trusted proxies.
func TestLists(t *testing.T) {
	var time clock
	h := byRules(t, time.store(), listRules, httplimit.Options{Trusted: proxies})
	for _, tt := range []struct {
		name, from, target string
		header             []string
		want               []int
	}{
		{"a stranger", "192.0.2.1:1", "/", nil, []int{200, 200, 429}},
		{"exempt", "[2001:db8:1:2::3]:1", "/", nil, []int{200, 200, 200}},
		{"not quite", "[2001:db8:2:2::3]:1", "/", nil, []int{200, 200, 429}},
		{"exempt by a header", "192.0.2.1:1", "/", []string{"X-Probe", "red", "X-Probe", "blue"}, []int{200, 200, 200}},
		{"denied", "198.51.100.1:1", "/", nil, []int{429, 429, 429}},
		{"denied behind a proxy", "10.0.0.1:1", "/", []string{"X-Forwarded-For", "198.51.100.2"}, []int{429, 429, 429}},
		{"a forged header", "192.0.2.9:1", "/", []string{"X-Forwarded-For", "2001:db8:1::1"}, []int{200, 200, 429}},
		{"denied by host", "192.0.2.8:1", "http://old.example.com/", nil, []int{403, 403, 403}},
		{"denied by user", "192.0.2.8:1", "/", []string{"Authorization", "Basic bWFsbG9yeTp4"}, []int{403, 403, 403}},
	} {
		for i, want := range tt.want {
			w := get(h, tt.from, tt.target, tt.header...)
			if w.Code != want {
				t.Errorf("%s, request %d: status %d, want %d", tt.name, i, w.Code, want)
			}
			if listed := tt.want[2] == tt.want[0]; listed == (field(w, "RateLimit") != "") {
				t.Errorf("%s: RateLimit: %s", tt.name, field(w, "RateLimit"))
			}
		}
	}
}

// The answer of a list has no numbers of a limit, because waiting does not help.
func TestListAnswers(t *testing.T) {
	var time clock
	h := byRules(t, time.store(), listRules, httplimit.Options{})
	expect(t, "envelope", dump(get(h, "198.51.100.1:1", "/")), `
429
Cache-Control: no-store
Content-Type: application/json

{"error":{"code":"denied","message":"This client is not served.","context":{}}}`)
	expect(t, "problem", dump(get(h, "192.0.2.1:1", "http://old.example.com/", "Accept", "application/problem+json")), `
403
Cache-Control: no-store
Content-Type: application/problem+json

{"type":"about:blank","title":"Forbidden","status":403,"detail":"This client is not served.","code":"denied"}`)

	own := byRules(t, time.store(), listRules, httplimit.Options{Denied: func(w http.ResponseWriter, _ *http.Request, v *limiter.Verdict) {
		w.WriteHeader(v.Listed.Status)
		fmt.Fprint(w, v.Listed.Name)
	}})
	if w := get(own, "192.0.2.1:1", "/", "Authorization", "Basic bWFsbG9yeTp4"); w.Code != 403 || w.Body.String() != "banned" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}
