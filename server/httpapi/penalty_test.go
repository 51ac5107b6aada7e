package httpapi

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const penaltyRules = `
domain: login
descriptors:
  - key: user
    descriptors:
      - key: remote_address
        rate_limit: {requests: 1, per: 1m, align: first, penalty: {after: 1, ladder: [5m, 1h], decay: 1d, jitter: 50%}}
`

// TestPenalty: a check says that a penalty denies and until when, an inspection shows the level and
// changes nothing, and a reset ends the penalty.
func TestPenalty(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "login.yaml", Data: []byte(penaltyRules)})
	if err != nil {
		t.Fatal(err)
	}
	var clock atomic.Int64
	clock.Store(int64(zero))
	store := memory.New(memory.Options{Clock: func() stint.Instant { return stint.Instant(clock.Load()) }})
	l := limiter.New(store, table, limiter.Options{})
	admin, traffic := NewAdmin(l, AdminOptions{}), NewTraffic(l, TrafficOptions{}).Handler()
	const (
		body  = `{"domain":"login","descriptors":[{"entries":[{"key":"user","value":"ann"},{"key":"remote_address","value":"192.0.2.1"}]}]}`
		shown = `{"limits":[{"descriptor":0,"rule":"login/user/remote_address","shadow":false,"config":{"algorithm":"fixed_window","requests":1,"per":"1m","align":"first"},` +
			`"penalty":{"after":1,"ladder":["5m","1h"],"decay":"1d","jitter":"50%%"},"penalized":{%s},` +
			`"limit":1,"used":%d,"remaining":%d,"reset_after_ms":%d,"degraded":false}],"unmatched":[]}`
		decision = `"rule":"login/user/remote_address","limit":1,"remaining":0,"retry_after_ms":%d,"reset_after_ms":%d,"delay_ms":0,"degraded":false,"over":false`
		at       = "2026-01-01T00:06:05.292735Z"
	)
	verdict := func(allowed bool, retry, reset int, reason string) string {
		one := fmt.Sprintf(`{"allowed":%v,`+decision, allowed, retry, reset)
		if reason != "" {
			one += `,"reason":"` + reason + `"`
		}
		return one + `,"results":[` + one + `}]}`
	}
	for i, step := range []struct{ path, want string }{
		{CheckPath, verdict(true, 0, 60000, "")},
		{CheckPath, verdict(false, 60000, 60000, "rate_limited")},
		{"/v1/inspect", fmt.Sprintf(shown, `"level":0,"left":1,"retry_after_ms":0,"reset_after_ms":60000`, 1, 0, 60000)},
		{CheckPath, verdict(false, 365293, 365293, "penalized")},
		{"/v1/inspect", fmt.Sprintf(shown, `"level":1,"left":0,"retry_after_ms":365293,"until":"`+at+`","reset_after_ms":86765293`, 1, 0, 60000)},
		{"+7m", ""},
		{"/v1/inspect", fmt.Sprintf(shown, `"level":1,"left":2,"retry_after_ms":0,"reset_after_ms":86345293`, 0, 1, 0)},
		{CheckPath, verdict(true, 0, 60000, "")},
		{CheckPath, verdict(false, 60000, 60000, "rate_limited")},
		{"/v1/reset", `{"limits":[{"descriptor":0,"rule":"login/user/remote_address"}],"unmatched":[]}`},
		{"/v1/inspect", fmt.Sprintf(shown, `"level":0,"left":2,"retry_after_ms":0,"reset_after_ms":0`, 0, 1, 0)},
	} {
		if pause, is := strings.CutPrefix(step.path, "+"); is {
			d, _ := time.ParseDuration(pause)
			clock.Add(d.Microseconds())
			continue
		}
		handler := admin
		if step.path == CheckPath {
			handler = traffic
		}
		status, answer, _ := call(t, handler, "POST", step.path, body)
		if got := strings.TrimSuffix(answer, "\n"); status != 200 || got != step.want {
			t.Errorf("step %d, %s: status %d\n%s, want\n%s", i, step.path, status, got, step.want)
		}
	}
	_, answer, _ := call(t, admin, "GET", "/v1/limits", "")
	if !strings.Contains(answer, `"penalty":{"after":1,"ladder":["5m","1h"],"decay":"1d","jitter":"50%"}`) {
		t.Errorf("/v1/limits: %s", answer)
	}
}

// TestPenaltyOfAuth: a proxy gets 429 with the code of a penalty and the time to wait, without the
// numbers of a limit.
func TestPenaltyOfAuth(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "web.yaml", Data: []byte(strings.Replace(penaltyRules, "jitter: 50%", "jitter: 1%", 1) + `
http:
  rate_limits:
    - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}, {remote_address: {}}]
`)})
	if err != nil {
		t.Fatal(err)
	}
	traffic := NewTraffic(limiter.New(memory.New(memory.Options{}), table, limiter.Options{}), TrafficOptions{Auth: AuthOptions{Trusted: []netip.Prefix{netip.PrefixFrom(proxyPeer, 32)}}})
	var resp Response
	for range 3 {
		resp = Response{}
		traffic.Serve(t.Context(), proxyAsks("domain=login", "GET /", "X-User: ann", "X-Forwarded-For: 192.0.2.1"), &resp)
	}
	if resp.Status != 429 || !strings.Contains(string(resp.Body), `"code":"penalized"`) || field(&resp, "RateLimit") != "" || len(field(&resp, "Retry-After")) != 3 {
		t.Errorf("%d %v %s", resp.Status, resp.Fields, resp.Body)
	}
}
