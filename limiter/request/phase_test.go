package request

import (
	"net/http"
	"testing"

	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/rule"
	"stint/rule/catalog"
	"stint/store/memory"
)

// known is a request of an authenticated client.
type known struct {
	visit
	name string
}

func (k known) Identity() string { return k.name }

// TestCatalogPhase checks that rules per API are decided in one of two phases: where the rules know the
// identity in the later one, else in the earlier one.
func TestCatalogPhase(t *testing.T) {
	for _, tt := range []struct {
		name, file  string
		early, late int // rules per API that were asked
	}{
		{"identity", "domain: api\ndescriptors: [{key: user}]\nhttp: {rate_limits: [{actions: [{identity: {}}]}]}\n", 0, 1},
		{"no identity", "domain: api\ndescriptors: [{key: path}]\nhttp: {rate_limits: [{actions: [{path: {}}]}]}\n", 1, 0},
		{"no rule file", "domain: other\n", 1, 0},
	} {
		c := catalog.New(catalog.Options{Domain: "api"})
		if err := c.Put(catalog.Rule{ID: "1", URL: "GET /a", Time: "hour", Requests: 2}); err != nil {
			t.Fatal(err)
		}
		l := limiter.New(memory.New(memory.Options{}), table(t, tt.file), limiter.Options{Catalog: c})
		a := known{visit{"/a", "192.0.2.1", ""}, "ann"}
		var first, second Scratch
		if _, err := (&ByRules{Limiter: l, Domain: "api", Phase: rule.Early}).Decide(t.Context(), get{a}, false, &first); err != nil {
			t.Fatal(err)
		}
		second.Earlier = new(EarlierOf(&first.Verdict))
		if _, err := (&ByRules{Limiter: l, Domain: "api"}).Decide(t.Context(), get{a}, false, &second); err != nil {
			t.Fatal(err)
		}
		if e, l := len(first.Verdict.Asked), len(second.Verdict.Asked); e != tt.early || l != tt.late {
			t.Errorf("%s: %d and %d rules were asked, want %d and %d", tt.name, e, l, tt.early, tt.late)
		}
	}
}

// get is a request with the method GET.
type get struct{ known }

func (get) Method() string { return http.MethodGet }

// TestBannedUser checks that a user who is banned is denied in the later phase, also if the request was
// exempt in the earlier one.
func TestBannedUser(t *testing.T) {
	const file = "domain: api\nexempt: [{cidrs: [192.0.2.0/24]}]\ndescriptors: [{key: user, rate_limit: {requests: 1, per: 1h}}]\nhttp: {rate_limits: [{actions: [{path: {}}]}, {actions: [{identity: {}}]}]}\n"
	l := limiter.New(memory.New(memory.Options{}), table(t, file), limiter.Options{Records: samples.Records(t, records.Ban{Subject: "user=eve"})})
	for _, tt := range []struct {
		name string
		want Outcome
	}{{"eve", Decided}, {"ann", NoLimit}} {
		a := known{visit{"/a", "192.0.2.1", ""}, tt.name}
		var first, second Scratch
		if _, err := (&ByRules{Limiter: l, Domain: "api", Phase: rule.Early}).Decide(t.Context(), a, false, &first); err != nil || first.Verdict.Listed == nil {
			t.Fatalf("not exempt: %v", err)
		}
		second.Earlier = new(EarlierOf(&first.Verdict))
		what, err := (&ByRules{Limiter: l, Domain: "api"}).Decide(t.Context(), a, false, &second)
		if err != nil || what != tt.want || what == Decided && second.Verdict.Reason() != limiter.ReasonBanned {
			t.Errorf("%s: %v, %v, %q", tt.name, what, err, second.Verdict.Reason())
		}
	}
}
