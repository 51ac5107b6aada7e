package app

import (
	"net/http"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// Rules per API that are records change on one node and apply on all, with an entry in the audit trail.
// Without Redis they cannot be changed, and stay in force.
func TestRulesInRecords(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	a, b := start(t, sharing(t, server.URL())), start(t, sharing(t, server.URL()))
	const rule = `{"url": "/v1/orders", "time": "day", "requests": 2}`
	testkit.Until(t, "the rule is made", func() bool {
		status, _, _ := a.do(http.MethodPut, "admin", "/v1/rules/7", rule)
		return status == http.StatusCreated || status == http.StatusOK
	})
	testkit.Until(t, "the other node has the rule", func() bool {
		status, _, _ := b.get("admin", "/v1/rules/7")
		return status == http.StatusOK
	})
	const check = `{"domain": "api", "descriptors": [{"entries": [{"key": "path", "value": "/v1/orders"}]}]}`
	for i, want := range []string{`"allowed":true,"rule":"7"`, `"allowed":true,"rule":"7"`, `"allowed":false,"rule":"7"`} {
		if _, _, body := b.do(http.MethodPost, "http", "/v1/check", check); !strings.Contains(body, want) {
			t.Errorf("request %d: %s, want %s", i, body, want)
		}
	}
	_, tag, _ := b.get("admin", "/v1/rules/7")
	status, _, body := b.do(http.MethodPut, "admin", "/v1/rules/7", `{"url": "/v1/orders", "time": "day", "requests": 5}`, "If-Match", tag.Get("ETag"), "X-Stint-Why", "ticket 7")
	if status != http.StatusOK {
		t.Fatalf("change on the other node: %d %s", status, body)
	}
	if status, _, body := a.do(http.MethodPut, "admin", "/v1/rules/7", rule, "If-Match", tag.Get("ETag")); status != http.StatusPreconditionFailed {
		t.Errorf("change of what was changed meanwhile: %d %s", status, body)
	}
	testkit.Until(t, "the first node has both entries of the audit trail", func() bool {
		_, _, body := a.get("admin", "/v1/audit")
		return strings.Contains(body, "ticket 7") && strings.Contains(body, `"requests":5`) && strings.Count(body, `"kind":"rule"`) == 2
	})
	if _, _, body := a.get("admin", "/v1/records"); !strings.Contains(body, `"rule":1`) {
		t.Errorf("the records have no rule: %s", body)
	}
	server.Freeze()
	if status, _, body := a.do(http.MethodDelete, "admin", "/v1/rules/7", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"unavailable"`) {
		t.Errorf("change without Redis: %d %s", status, body)
	}
	if status, _, _ := a.get("admin", "/v1/rules/7"); status != http.StatusOK {
		t.Errorf("without Redis the rule is gone: %d", status)
	}
	server.Thaw()
}
