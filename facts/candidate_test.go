package facts

import (
	"fmt"
	"testing"
)

const triedRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {per: 1m, requests: 5, candidate: {requests: %d}}
`

// The facts of a candidate compare it with its limit on the same requests. Other numbers are another
// candidate, and nodes add up what they know of the same one.
func TestCandidate(t *testing.T) {
	w := newWorld(t, fmt.Sprintf(triedRules, 8), Options{})
	for range 10 {
		w.ask(1, "user", "busy")
	}
	for range 6 {
		w.ask(1, "user", "other")
	}
	w.ask(0, "user", "busy")
	want := Candidate{
		Limit: "fixed_window 8 per 1m", Now: Counts{Allowed: 10, Denied: 6, Looks: 1}, Then: Counts{Allowed: 14, Denied: 2, Looks: 1},
		KeysDeniedNow: 2, KeysDeniedThen: 1,
	}
	r := w.rule("api/user")
	if r.Candidate == nil || *r.Candidate != want || r.Allowed != 10 || r.Denied != 6 {
		t.Errorf("%+v %+v, want %+v", r.Counts, r.Candidate, want)
	}
	both := Rule{}
	both.addCandidate(r.Candidate)
	both.addCandidate(&want)
	both.addCandidate(&Candidate{Limit: "another", Now: Counts{Denied: 9}})
	if c := both.Candidate; c.Now.Denied != 12 || c.Then.Allowed != 28 || c.KeysDeniedNow != 2 || r.Candidate.Now.Denied != 6 {
		t.Errorf("two nodes: %+v", c)
	}
	w.facts.Reloaded(table(t, fmt.Sprintf(triedRules, 8)), true)
	if r := w.rule("api/user"); r.Candidate.Now.Denied != 6 {
		t.Errorf("the same candidate, reloaded: %+v", r.Candidate)
	}
	w.facts.Reloaded(table(t, fmt.Sprintf(triedRules, 9)), true)
	if r := w.rule("api/user"); r.Candidate.Now != (Counts{}) || r.Denied != 6 {
		t.Errorf("another candidate: %+v", r.Candidate)
	}
	w.facts.Reloaded(table(t, "domain: api\ndescriptors:\n  - {key: user, rate_limit: {per: 1m, requests: 5}}\n"), true)
	if r := w.rule("api/user"); r.Candidate != nil {
		t.Errorf("no candidate: %+v", r.Candidate)
	}
}
