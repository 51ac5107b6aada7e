package httplimit_test

import (
	"net/http"
	"testing"

	"stint/httplimit"
	"stint/limiter"
)

const penaltyRules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit:
      name: logins
      requests: 1
      per: 1h
      denial: {status: 420}
      penalty: {after: 1, ladder: [2h, 4h], shared: true}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`

// A penalty is answered with 429 and its own code, without the numbers of a limit, whatever denial
// the limit has. The answer that starts a step says so already, and Retry-After is its end.
func TestPenalty(t *testing.T) {
	time := clock{1767225600_000_000}
	h := byRules(t, time.store(), penaltyRules, httplimit.Options{PolicyHeader: "X-Policy"})
	get(h, "192.0.2.1:1", "/")
	if w := get(h, "192.0.2.1:1", "/"); w.Code != 420 {
		t.Fatalf("the limit itself denies with %d", w.Code)
	}
	expect(t, "the step starts", dump(get(h, "192.0.2.1:1", "/")), `
429
Cache-Control: no-store
Content-Type: application/json
Retry-After: 7200
X-Policy: "logins"

{"error":{"code":"penalized","message":"Too many requests after the limit was reached. Wait 2 hours and try again.","context":{"renewal":1767232800}}}`)
	time.now += 3600_000_000
	expect(t, "a problem", dump(get(h, "192.0.2.1:1", "/", "Accept", "application/problem+json")), `
429
Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: 3600
X-Policy: "logins"

{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"Too many requests after the limit was reached. Wait 1 hour and try again.","code":"penalized"}`)
	if w := get(h, "192.0.2.2:1", "/"); w.Code != http.StatusOK {
		t.Errorf("another address: %d", w.Code)
	}
	time.now += 3600_000_000
	if w := get(h, "192.0.2.1:1", "/"); w.Code != http.StatusOK {
		t.Errorf("after the step: %d", w.Code)
	}
}

// Options.Denied gets the verdict of a penalty.
func TestPenaltyDenied(t *testing.T) {
	time := clock{1767225600_000_000}
	var reason limiter.Reason
	h := byRules(t, time.store(), penaltyRules, httplimit.Options{Denied: func(w http.ResponseWriter, _ *http.Request, v *limiter.Verdict) {
		reason = v.Reason()
		w.WriteHeader(http.StatusTeapot)
	}})
	for range 2 {
		get(h, "192.0.2.1:1", "/")
	}
	if reason != limiter.ReasonRateLimited {
		t.Errorf("the limit denies for %q", reason)
	}
	if w := get(h, "192.0.2.1:1", "/"); w.Code != http.StatusTeapot || reason != limiter.ReasonPenalized || w.Header().Get("Retry-After") != "7200" {
		t.Errorf("%d for %q, %v", w.Code, reason, w.Header())
	}
}
