package request

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// request is a request of a path, as the actions of a rule file read it.
type request struct{ path, cost string }

func (r request) Method() string                   { return http.MethodGet }
func (r request) Path() string                     { return r.path }
func (r request) Query(string) (string, bool)      { return "", false }
func (r request) Header(string) (string, bool)     { return r.cost, r.cost != "" }
func (r request) RemoteAddress() (none netip.Addr) { return none }

// away is a store that cannot decide.
type away struct{}

var errAway = errors.New("the store is away")

func (away) Decide(context.Context, *stint.Call) error { return errAway }

const file = `
domain: api
descriptors:
  - key: path
    value: /strict
    rate_limit: {name: strict, requests: 1, per: 1h, on_store_failure: deny}
  - key: path
    value: /shadow
    shadow_mode: true
    rate_limit: {requests: 1, per: 1h, on_store_failure: deny}
  - key: path
    value: /answers
    rate_limit: {name: answers, requests: 5, per: 1h, count: responses, statuses: [401]}
  - key: path
    rate_limit: {name: other, requests: 1, per: 1h}
http:
  rate_limits:
    - actions: [{path: {}}]
      cost: {header: x-cost}
`

func table(t *testing.T, text string) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A request is put to the rules of its domain, at its cost, and the failure policy is
// the strictest of those that may deny.
func TestRules(t *testing.T) {
	const none = "domain: api\ndescriptors: [{key: path, rate_limit: {requests: 0, per: 1h}}]\n"
	for name, test := range map[string]struct {
		store   stint.Store
		table   *rule.Table
		domain  string
		request request
		want    Outcome
		allowed bool
		policy  rule.Failure
	}{
		"decided":        {memory.New(memory.Options{}), table(t, file), "api", request{"/a", ""}, Decided, true, rule.Allow},
		"too much":       {memory.New(memory.Options{}), table(t, file), "api", request{"/a", "2"}, Decided, false, rule.Allow},
		"no cost":        {memory.New(memory.Options{}), table(t, file), "api", request{"/a", "-1"}, Invalid, false, rule.Allow},
		"no table":       {memory.New(memory.Options{}), nil, "api", request{"/a", ""}, NoLimit, false, rule.Allow},
		"no domain":      {memory.New(memory.Options{}), table(t, file), "web", request{"/a", ""}, NoLimit, false, rule.Allow},
		"no actions":     {memory.New(memory.Options{}), table(t, none), "api", request{"/a", ""}, NoLimit, false, rule.Allow},
		"away":           {away{}, table(t, file), "api", request{"/a", ""}, Undecided, false, rule.Allow},
		"away, strict":   {away{}, table(t, file), "api", request{"/strict", ""}, Undecided, false, rule.Deny},
		"away, a shadow": {away{}, table(t, file), "api", request{"/shadow", ""}, Undecided, false, rule.Allow},
	} {
		t.Run(name, func(t *testing.T) {
			rules := &ByRules{Limiter: limiter.New(test.store, test.table, limiter.Options{}), Domain: test.domain}
			var s Scratch
			got, err := rules.Decide(t.Context(), test.request, false, &s)
			if got != test.want || (err != nil) != (got == Undecided || got == Invalid) {
				t.Fatalf("outcome %d, %v, want %d", got, err, test.want)
			}
			if got == Decided && s.Verdict.Allowed != test.allowed {
				t.Errorf("allowed %v, want %v", s.Verdict.Allowed, test.allowed)
			}
			if policy, r := rules.OnFailure(&s); policy != test.policy || (r != nil) != (policy == rule.Deny) {
				t.Errorf("policy %v by %v, want %v", policy, r, test.policy)
			}
		})
	}
}

// Only who says that the answer will be told has something reserved.
func TestAnswers(t *testing.T) {
	rules := &ByRules{Limiter: limiter.New(memory.New(memory.Options{}), table(t, file), limiter.Options{}), Domain: "api"}
	for _, answers := range []bool{true, false} {
		var s Scratch
		if _, err := rules.Decide(t.Context(), request{"/answers", ""}, answers, &s); err != nil || s.Verdict.Reserved() != answers {
			t.Errorf("reserved %v, %v, want %v", s.Verdict.Reserved(), err, answers)
		}
	}
}

// who is a caller with a key, an address, both or none.
type who struct{ key, address string }

func (w who) Key() (string, bool) { return w.key, w.key != "" }

func (w who) Client() netip.Addr {
	a, _ := netip.ParseAddr(w.address)
	return a
}

// Each caller has a bucket of its own, and no two of anything share one.
func TestBare(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour})
	store := memory.New(memory.Options{})
	bare := func(o SingleOptions) *Single { return NewSingle(limiter.New(store, nil, limiter.Options{}), limit, o) }
	plain, keyed := bare(SingleOptions{}), bare(SingleOptions{Keyed: true})
	named, refusing := bare(SingleOptions{Name: "1/1h"}), bare(SingleOptions{Keyed: true, OnMissing: Refuse})
	passing, wide := bare(SingleOptions{Keyed: true, OnMissing: Pass}), bare(SingleOptions{Name: "wide", IPv6Bits: 48})
	for i, step := range []struct {
		bare    *Single
		part    string
		who     who
		want    Outcome
		allowed bool
	}{
		{plain, "", who{"", "192.0.2.1"}, Decided, true},
		{plain, "", who{"", "192.0.2.1"}, Decided, false},
		{plain, "", who{"k", "192.0.2.1"}, Decided, false}, // it does not ask for keys
		{plain, "", who{"", "192.0.2.2"}, Decided, true},
		{plain, "", who{"", ""}, Unidentified, false},
		{plain, "/a", who{"", "192.0.2.1"}, Decided, true},
		{plain, "/a", who{"", "192.0.2.1"}, Decided, false},
		{plain, "/b", who{"", "192.0.2.1"}, Decided, true},
		{keyed, "", who{"", "192.0.2.1"}, Decided, false}, // the same name and store: the same limit
		{keyed, "", who{"192.0.2.1", "192.0.2.1"}, Decided, true},
		{keyed, "", who{"192.0.2.1", "192.0.2.9"}, Decided, false},
		{keyed, "", who{"", ""}, Unidentified, false},
		{named, "", who{"", "192.0.2.1"}, Decided, true},
		{refusing, "", who{"", "192.0.2.3"}, Unidentified, false},
		{passing, "", who{"", "192.0.2.3"}, NoLimit, false},
		{wide, "", who{"", "2001:db8::1"}, Decided, true},
		{wide, "", who{"", "2001:db8:0:1::1"}, Decided, false},
		{wide, "", who{"", "2001:db8:1::1"}, Decided, true},
	} {
		var s Scratch
		got, err := step.bare.Decide(t.Context(), step.part, step.who, &s)
		if err != nil || got != step.want || got == Decided && s.Verdict.Allowed != step.allowed {
			t.Errorf("step %d: outcome %d, allowed %v, %v", i, got, s.Verdict.Allowed, err)
		}
	}
	if shown, of := named.Name(nil); shown != "1/1h" || of != limit {
		t.Errorf("called %q", shown)
	}
}
