package limiter

import (
	"net/netip"
	"testing"

	"stint"
	"stint/internal/testkit"
)

const listRules = `
domain: api
exempt:
  - {cidrs: [10.0.0.0/8], name: office}
  - {key: user, values: [root]}
deny:
  - {cidrs: [10.0.0.0/8, 192.0.2.0/24]}
  - {key: user, values: [mallory]}
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
`

// client is an HTTP request that has only an address.
type client string

func (client) Method() string               { return "GET" }
func (client) Path() string                 { return "/" }
func (client) Query(string) (string, bool)  { return "", false }
func (client) Header(string) (string, bool) { return "", false }
func (c client) RemoteAddress() netip.Addr  { a, _ := netip.ParseAddr(string(c)); return a }

// A list decides requests that are in it, without the store. The limits decide requests in no list,
// and those that take nothing.
func TestLists(t *testing.T) {
	l := New(broken{}, table(t, listRules), Options{})
	for name, tt := range map[string]struct {
		address string
		user    string
		cost    uint32
		op      stint.Op
		listed  string // "asked": the store was called
		allowed bool
	}{
		"nobody":             {"", "ann", 1, stint.Ask, "asked", false},
		"office":             {"10.0.0.1", "ann", 1, stint.Ask, "office", true},
		"exempt before deny": {"10.0.0.1", "mallory", 1, stint.Ask, "office", true},
		"exempt by value":    {"192.0.2.1", "root", 1, stint.Ask, "api/exempt#2", true},
		"denied":             {"192.0.2.1", "ann", 1, stint.Ask, "api/deny#1", false},
		"denied by value":    {"", "mallory", 9, stint.Ask, "api/deny#2", false},
		"a peek":             {"192.0.2.1", "mallory", 0, stint.Ask, "asked", false},
		"a reset":            {"192.0.2.1", "mallory", 1, stint.Reset, "asked", false},
		"no limit":           {"192.0.2.1", "", 1, stint.Ask, "api/deny#1", false},
	} {
		req := &Request{Domain: "api"}
		if tt.user != "" {
			req = describe(tt.cost, "user", tt.user)
		}
		req.Op, req.Attributes = tt.op, client(tt.address)
		var v Verdict
		err := l.Decide(ctx, req, &v)
		got := "asked"
		if err == nil && v.Listed != nil {
			got = v.Listed.Name
		}
		if got != tt.listed || err == nil && v.Allowed != tt.allowed {
			t.Errorf("%s: %s, %+v, %v", name, got, v.Decision, err)
		}
		if err == nil && !v.Allowed && (v.RetryAfter != stint.Never || v.Limit != 0 || v.Remaining != 0 || len(v.Asked) > 0) {
			t.Errorf("%s: %+v", name, v.Decision)
		}
		if err == nil && len(v.Results) > 0 && v.Results[0].Allowed != tt.allowed {
			t.Errorf("%s: result %+v", name, v.Results[0])
		}
		if err := l.Undo(ctx, &v); err != nil && got != "asked" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The list of the previous decision is reset. Without HTTP attributes only descriptors match lists.
// Nothing is allocated.
func TestListsLeaveNoTrace(t *testing.T) {
	l := newLimiter(t, listRules, nil)
	var v Verdict
	denied := describe(1, "user", "mallory")
	for _, req := range []*Request{denied, describe(1, "user", "ann")} {
		if err := l.Decide(ctx, req, &v); err != nil || (v.Listed != nil) != (req == denied) || v.Allowed != (req != denied) {
			t.Errorf("%+v: %v", v.Decision, err)
		}
	}
	denied.Attributes = client("192.0.2.1")
	if n := testing.AllocsPerRun(100, func() { _ = l.Decide(ctx, denied, &v) }); n != 0 && !testkit.Race {
		t.Errorf("%v allocations", n)
	}
}
