package limiter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
)

const atMostRules = `
domain: api
descriptors:
  - key: user
    rate_limit: [{name: hour, per: 1h, requests: 10}, {name: day, per: 24h, requests: 12}]
  - key: team
    rate_limit: {name: team, per: 1h, requests: 7}
  - key: shadow
    shadow_mode: true
    rate_limit: {name: shadow, per: 1h, requests: 2}
  - key: free
    rate_limit: {unlimited: true}
  - key: soft
    rate_limit: {name: soft, per: 1h, requests: 10, soft: 20%}
  - key: answers
    rate_limit: {name: answers, per: 1h, requests: 5, count: responses, statuses: [401]}
  - key: none
    rate_limit: {name: none, per: 1h, requests: 0}
  - key: owes
    rate_limit: {name: owes, per: 1h, requests: 5, overdraw: true}
  - {key: pool, value: all, rate_limit: {name: pool, per: 1h, requests: 50}}
  - key: elastic
    rate_limit: {name: elastic, per: 1h, requests: 5, elastic: {from: pool, upto: 200%}}
exempt:
  - {name: staff, key: user, values: [boss]}
`

// atMost makes a request for at most some units of each pair.
func atMost(cost uint32, pairs ...string) *Request {
	req := describe(cost, pairs...)
	req.Op = stint.AskAtMost
	return req
}

// A request for at most its cost is charged the number of units that all its limits have. If no limit
// applies, it is charged its whole cost. Limits in shadow mode count as no limit.
func TestAtMost(t *testing.T) {
	for _, test := range []struct {
		name    string
		before  *Request
		req     *Request
		charged uint32
		results []uint32 // Charged of each descriptor
	}{
		{"in full", nil, atMost(9, "user", "a"), 9, []uint32{9}},
		{"the hour", nil, atMost(11, "user", "a"), 10, []uint32{10}},
		{"two descriptors", nil, atMost(11, "user", "a", "team", "x"), 7, []uint32{7, 7}},
		{"denied by one", describe(7, "team", "x"), atMost(11, "user", "a", "team", "x"), 0, []uint32{0, 0}},
		{"beside a shadow", nil, atMost(11, "shadow", "s", "team", "x"), 7, []uint32{7, 7}},
		{"a shadow alone", describe(2, "shadow", "s"), atMost(11, "shadow", "s"), 11, []uint32{11}},
		{"unlimited", nil, atMost(11, "free", "f", "team", "x"), 7, []uint32{7, 7}},
		{"unlimited alone", nil, atMost(11, "free", "f"), 11, []uint32{11}},
		{"unmatched", nil, atMost(11, "nobody", "n"), 11, []uint32{11}},
		{"exempt", nil, atMost(11, "user", "boss"), 11, []uint32{11}},
		{"soft", nil, atMost(20, "soft", "s"), 12, []uint32{12}},
		{"no requests", nil, atMost(20, "none", "s"), 0, []uint32{0}},
	} {
		var v Verdict
		l := newLimiter(t, atMostRules, nil)
		if test.before != nil {
			if err := l.Decide(ctx, test.before, &v); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Decide(ctx, test.req, &v); err != nil {
			t.Fatal(err)
		}
		if v.Charged != test.charged || v.Allowed != (test.charged > 0) {
			t.Errorf("%s: allowed %v, charged %d, want %d", test.name, v.Allowed, v.Charged, test.charged)
		}
		for i, want := range test.results {
			if got := v.Results[i].Charged; got != want {
				t.Errorf("%s, descriptor %d: charged %d, want %d", test.name, i, got, want)
			}
		}
	}
}

// In a domain that is not atomic each limit is charged its own number of units. Verdict.Charged is the
// smallest of them.
func TestAtMostApart(t *testing.T) {
	var v Verdict
	l := newLimiter(t, "atomic: false\n"+atMostRules[1:], nil)
	if err := l.Decide(ctx, atMost(9, "user", "a", "team", "x"), &v); err != nil || v.Charged != 7 || v.Results[0].Charged != 9 || v.Results[1].Charged != 7 {
		t.Errorf("%v, %+v", err, v.Results)
	}
}

// Undo and Settle give back what was charged.
func TestAtMostUndo(t *testing.T) {
	left := func(l *Limiter, pairs ...string) int64 {
		var v Verdict
		if err := l.Decide(ctx, describe(0, pairs...), &v); err != nil {
			t.Fatal(err)
		}
		return v.Remaining
	}
	l := newLimiter(t, atMostRules, nil)
	var first, v Verdict
	for _, one := range []struct {
		v   *Verdict
		req *Request
	}{{&first, describe(4, "team", "x")}, {&v, atMost(20, "user", "a", "team", "x")}} {
		if err := l.Decide(ctx, one.req, one.v); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Undo(ctx, &v); err != nil || v.Charged != 3 || left(l, "team", "x") != 3 || left(l, "user", "a") != 10 {
		t.Errorf("%v: %d charged, %d and %d left", err, v.Charged, left(l, "team", "x"), left(l, "user", "a"))
	}
	req := atMost(20, "answers", "x")
	req.Answers = true
	if err := l.Decide(ctx, req, &v); err != nil || v.Charged != 5 || !v.Reserved() {
		t.Fatalf("%v, %+v", err, v.Decision)
	}
	if err := l.Settle(ctx, &v, 200); err != nil || left(l, "answers", "x") != 5 {
		t.Errorf("%v, %d left", err, left(l, "answers", "x"))
	}
}

// If a limit must be charged the whole cost or nothing, a request for at most its cost returns an
// error, charges nothing, and no observer sees it.
func TestAtMostErrors(t *testing.T) {
	for want, req := range map[string]*Request{
		"rule owes overdraws: it is charged the whole cost, whatever is left": atMost(3, "team", "x", "owes", "a"),
		"rule elastic is elastic, and its units come from two limits":         atMost(3, "team", "x", "elastic", "a"),
		"two descriptors take from the same key":                              atMost(3, "team", "x", "team", "x"),
	} {
		o := new(witness)
		l := newLimiter(t, atMostRules, o)
		var v Verdict
		err := l.Decide(ctx, req, &v)
		if wrong, ok := errors.AsType[*AtMostError](err); !ok || wrong.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if o.verdicts > 0 {
			t.Errorf("%s: the observer got %d decisions", want, o.verdicts)
		}
		if err := l.Decide(ctx, describe(7, "team", "x"), &v); err != nil || !v.Allowed {
			t.Errorf("%s: charged all the same: %v, %+v", want, err, v.Decision)
		}
	}
	var v Verdict
	plain, tallied := stint.MustLimit(stint.Spec{Requests: 5, Per: time.Hour}), atMost(3, "team", "x")
	tallied.Descriptors[0].Limit, tallied.Descriptors[0].Tally = plain, limits.CountingDenied(plain)
	var wrong *AtMostError
	err := newLimiter(t, "atomic: false\n"+atMostRules[1:], nil).Decide(ctx, tallied, &v)
	if !errors.As(err, &wrong) || !strings.Contains(wrong.Problem, "counts denied requests too") {
		t.Errorf("%v", err)
	}
	limit := stint.MustLimit(stint.Spec{Requests: 5, Per: stint.MaxPer, Overdraw: true})
	err = newLimiter(t, atMostRules, nil).DecideInline(ctx, "k", limit, &Request{Op: stint.AskAtMost, Descriptors: []Descriptor{{Cost: 3}}}, &v)
	if wrong, ok := errors.AsType[*AtMostError](err); !ok || wrong.Error() != "the limit overdraws: it is charged the whole cost, whatever is left" {
		t.Errorf("%v", err)
	}
}
