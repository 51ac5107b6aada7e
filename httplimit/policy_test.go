package httplimit_test

import (
	"fmt"
	"net/http"
	"testing"

	"stint/httplimit"
)

const lending = `
domain: api
exempt:
  - {name: "our \"own\" ü", cidrs: [192.0.2.9]}
deny:
  - {cidrs: [192.0.2.8]}
descriptors:
  - key: remote_address
    rate_limit: {name: one, requests: 2, per: 1h, headers: none, elastic: {from: all, upto: 300%}}
  - key: pool
    value: all
    rate_limit: {name: all, requests: 5, per: 1h}
  - key: path
    value: /strict
    rate_limit: {name: strict, requests: 1, per: 1h, on_store_failure: deny}
  - key: path
    value: /shadow
    shadow_mode: true
    rate_limit: {requests: 0, per: 1h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{path: {}}]
`

// Every answer names the policy that decided, and marks requests that passed above their plain
// limit.
func TestPolicyHeader(t *testing.T) {
	const lone = `
domain: api
descriptors:
  - key: path
    shadow_mode: true
    rate_limit: {requests: 0, per: 1h}
http:
  rate_limits:
    - actions: [{path: {}}]
`
	options := httplimit.Options{PolicyHeader: "X-Policy", OverHeader: "X-Over"}
	time := clock{1767225600_000_000}
	h := byRules(t, time.store(), lending, options)
	bare := httplimit.Limit(time.store(), perHour(1), options)(ok)
	failed := byRules(t, broken{}, lending, options)
	for i, step := range []struct {
		handler    http.Handler
		from, path string
		want       string // status, policy, over
	}{
		{h, "192.0.2.1:1", "/", `200 "one" `},
		{h, "192.0.2.1:1", "/", `200 "one" `},
		{h, "192.0.2.1:1", "/", `200 "one" true`}, // three units of the pool are left
		{h, "192.0.2.1:1", "/shadow", `200 "one" true`},
		{h, "192.0.2.2:1", "/strict", `200 "strict" `}, // none is left
		{h, "192.0.2.2:1", "/strict", `429 "strict" `},
		{h, "192.0.2.1:1", "/", `429 "one" `},
		{h, "192.0.2.9:1", "/", `200 "our \"own\" %C3%BC" `},
		{h, "192.0.2.8:1", "/", `403 "api/deny#1" `},
		{byRules(t, time.store(), lone, options), "192.0.2.1:1", "/", `200  `},
		{bare, "192.0.2.1:1", "/", `200 "1/1h" `},
		{bare, "192.0.2.1:1", "/", `429 "1/1h" `},
		{failed, "192.0.2.1:1", "/", `200  `},
		{failed, "192.0.2.1:1", "/strict", `503 "strict" `},
	} {
		w := get(step.handler, step.from, step.path)
		if got := fmt.Sprintf("%d %s %s", w.Code, field(w, "X-Policy"), field(w, "X-Over")); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}
