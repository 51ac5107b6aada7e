package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/httplimit"
	"stint/limiter"
	"stint/rule"
)

// away is a store whose answers come from failure policies, like one behind a guard.
type away struct{}

func (away) Decide(_ context.Context, call *stint.Call) error {
	call.Results = call.Results[:0]
	for i := range call.Takes {
		t := &call.Takes[i]
		d := stint.Decision{Allowed: true, Degraded: true, Limit: stint.NoLimit, Remaining: stint.NoLimit}
		policy, local := t.OnFailure()
		switch {
		case policy == stint.Deny, policy == stint.Local && local == nil:
			d = stint.Decision{Degraded: true, Limit: t.Limit.Capacity(), RetryAfter: time.Second, ResetAfter: time.Second}
		case policy == stint.Local:
			most := local.Capacity()
			d = stint.Decision{Degraded: true, Limit: most, Remaining: most - 1, ResetAfter: time.Second}
			if d.Allowed = t.Cost <= uint32(most); !d.Allowed {
				d.RetryAfter = time.Second
			}
		}
		call.Results = append(call.Results, d)
	}
	return nil
}

const degrading = `
domain: api
descriptors:
  - key: path
    value: /free
    rate_limit: {requests: 1, per: 1h}
  - key: path
    value: /soft
    rate_limit: {requests: 10, per: 1h, soft: 50%, on_store_failure: local, local_share: 50%, nodes: 1}
  - key: path
    value: /strict
    rate_limit: {requests: 1, per: 1h, on_store_failure: deny}
  - key: path
    value: /part
    rate_limit: {requests: 10, per: 1h, on_store_failure: local, local_share: 20%, nodes: 1}
  - key: path
    value: /none
    rate_limit: {requests: 1, per: 1h, on_store_failure: local, local_share: 20%, nodes: 1}
http:
  rate_limits:
    - actions: [{path: {}}]
      cost: {header: x-cost, max: 10}
`

// TestDegraded checks that the answer of a failure policy differs from that of a limit, and has the
// configured header. It has no numbers of a limit that was not asked.
func TestDegraded(t *testing.T) {
	var last stint.Decision
	options := httplimit.Options{DegradedHeader: "X-Degraded", Headers: []rule.Preset{rule.Draft03}}
	told := options
	told.Denied = func(w http.ResponseWriter, _ *http.Request, v *limiter.Verdict) {
		last = v.Decision
		w.WriteHeader(http.StatusTeapot)
	}
	bare := func(policy rule.Failure) http.Handler {
		o := options
		o.OnStoreFailure = policy
		return httplimit.Limit(away{}, perHour(5), o)(ok)
	}
	h := byRules(t, away{}, degrading, options)
	for _, test := range []struct {
		name       string
		handler    http.Handler
		path, cost string
		want       string // status, degraded, wait, limit, remaining
	}{
		{"allow", h, "/free", "1", `200 "true" "" "" ""`},
		{"deny", h, "/strict", "1", `503 "true" "1" "" ""`},
		{"local", h, "/part", "1", `200 "true" "" "10, 10;w=3600" "1"`},
		{"local, spent", h, "/part", "3", `429 "true" "1" "10, 10;w=3600" "1"`},
		{"local, nothing to share", h, "/none", "1", `503 "true" "1" "" ""`},
		{"a soft limit shows its share", h, "/soft", "1", `200 "true" "" "10, 10;w=3600" "4"`},
		{"nothing matched", h, "/", "1", `200 "" "" "" ""`},
		{"own answer", byRules(t, away{}, degrading, told), "/strict", "1", `418 "true" "1" "" ""`},
		{"bare, allow", bare(rule.Allow), "/", "", `200 "true" "" "" ""`},
		{"bare, deny", bare(rule.Deny), "/", "", `503 "true" "1" "" ""`},
		{"bare, local", bare(rule.Local), "/", "", `503 "true" "1" "" ""`},
		{"no guard, allow", byRules(t, broken{}, degrading, options), "/free", "1", `200 "true" "" "" ""`},
		{"no guard, deny", byRules(t, broken{}, degrading, options), "/strict", "1", `503 "true" "1" "" ""`},
		{"switched off", httplimit.Limit(away{}, perHour(5), httplimit.Options{})(ok), "/", "", `200 "" "" "" ""`},
	} {
		w := get(test.handler, "192.0.2.1:1", test.path, "X-Cost", test.cost)
		got := fmt.Sprint(w.Code)
		for _, name := range []string{"X-Degraded", "Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining"} {
			got += fmt.Sprintf(" %q", strings.Join(w.Header()[name], ","))
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	if !last.Degraded || last.Allowed || last.RetryAfter != time.Second {
		t.Errorf("own answer to %+v", last)
	}
}
