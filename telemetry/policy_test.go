package telemetry

import (
	"testing"

	"stint"
	"stint/limiter"
	"stint/rule"
)

// Requests in the part that elastic or soft adds count as over; a pool does not count as unmatched;
// and settling a response does not count as a decision.
func TestPoliciesAreCounted(t *testing.T) {
	s := newService(t, parse(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 2, per: 1h, elastic: {from: everyone, upto: 200%}}
  - key: all
    value: x
    rate_limit: {requests: 100, per: 1h, name: everyone}
  - key: gentle
    rate_limit: {requests: 4, per: 1h, soft: 50%}
  - key: login
    rate_limit: {requests: 2, per: 1h, count: responses, statuses: [401]}
`))
	s.ask(t, "api", "user", "a", 1, 5)   // 2 of its own units, 2 borrowed, 1 denied
	s.ask(t, "api", "gentle", "a", 1, 7) // 4 plain, 2 of the soft part, 1 denied
	s.ask(t, "api", "user", "a", 0, 3)
	both := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{
		{Entries: []rule.Entry{{Key: "user", Value: "b"}}, Cost: 1}, {Entries: []rule.Entry{{Key: "all", Value: "x"}}, Cost: 1},
	}}
	login := limiter.Request{Domain: "api", Answers: true, Descriptors: []limiter.Descriptor{{Entries: []rule.Entry{{Key: "login", Value: "c"}}, Cost: 1}}}
	var v limiter.Verdict
	for _, req := range []*limiter.Request{&both, &login, &login, &login} {
		if err := s.Decide(t.Context(), req, &v); err != nil {
			t.Fatal(err)
		}
		if v.Reserved() {
			if err := s.Settle(t.Context(), &v, 200); err != nil {
				t.Fatal(err)
			}
		}
	}
	reset := login
	reset.Op, reset.Descriptors = stint.Reset, both.Descriptors[:1]
	if err := s.Decide(t.Context(), &reset, &v); err != nil {
		t.Fatal(err)
	}
	s.expect(t, `
		stint_over_total 4
		stint_rule_over_total{domain="api",rule="api/user"} 2
		stint_rule_over_total{domain="api",rule="api/gentle"} 2
		stint_rule_over_total{domain="api",rule="everyone"} 0
		stint_rule_denied_total{domain="api",rule="api/user"} 1
		stint_rule_denied_total{domain="api",rule="api/gentle"} 1
		stint_rule_denied_total{domain="api",rule="everyone"} 0
		stint_rule_allowed_total{domain="api",rule="api/login"} 3
		stint_unmatched_total{domain="api"} 0
	`)
}
