package factsapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/facts"
	"stint/internal/jsonbody"
	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/records/inforce"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/server/factsapi"
	"stint/store/memory"
)

const whyRules = `
domain: api
deny:
  - {key: user, values: [mallory]}
exempt:
  - {key: user, values: [root]}
descriptors:
  - key: user
    rate_limit: {requests: 10, per: 1h, align: first, name: users}
  - key: login
    rate_limit: {requests: 2, per: 1h, align: first, name: logins, penalty: {after: 1, ladder: [1m, 10m], decay: 24h}}
  - key: tenant
    rate_limit: {requests: 5, per: 1h, align: first, elastic: {from: everyone, upto: 300%}, name: tenants}
  - key: all
    value: tenants
    rate_limit: {requests: 8, per: 1h, align: first, name: everyone}
  - key: trial
    shadow_mode: true
    rate_limit: {requests: 1, per: 1h, align: first, name: trials}
  - key: burst
    rate_limit: {requests: 60, per: 1m, burst: 3, algorithm: token_bucket, name: bursts}
  - key: tried
    rate_limit: {requests: 2, per: 1h, align: first, name: tries, candidate: {requests: 3}}
`

// explained is a service that explains requests.
type explained struct {
	t       *testing.T
	limiter *limiter.Limiter
	file    *records.File
	handler http.Handler
}

func newExplained(t *testing.T, log facts.Reader) *explained {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(whyRules)})
	testkit.Must(t, err)
	e := &explained{t: t, file: samples.File(t)}
	known := inforce.NewRecords(e.file, inforce.RecordsOptions{})
	e.limiter = limiter.New(memory.New(memory.Options{Budget: 1 << 20}), table, limiter.Options{Records: known, DenyUnmatched: true})
	check := func(body []byte) (*limiter.Request, *jsonbody.Fault) {
		var q struct {
			Key, Value string
			Cost       uint32
		}
		if json.Unmarshal(body, &q) != nil {
			return nil, jsonbody.Bad("", "not JSON", "send JSON")
		}
		return describe(q.Key, q.Value, q.Cost), nil
	}
	e.handler = factsapi.NewWhy(factsapi.WhyOptions{Limiter: e.limiter, Check: check, MaxBody: 1 << 10, Facts: log, ID: func(k stint.Key) string { return fmt.Sprintf("%x", k) }})
	return e
}

// A limit that tries a candidate has what that would decide, without taking from it, and every limit has the
// key by which /v1/facts/keys finds it.
func TestWhyCandidate(t *testing.T) {
	e := newExplained(t, nil)
	for i, want := range []struct {
		denied, candidate bool
		used              int64
	}{{false, true, 1}, {false, true, 2}, {true, true, 3}, {true, false, 3}} {
		for range 5 { // it takes nothing
			l := e.why("tried", "x", 1).Limits[0]
			if l.Denies != want.denied || l.Candidate == nil || l.Candidate.Allowed != want.candidate || *l.Candidate.After.Used != want.used || *l.Candidate.Config.Requests != 3 {
				t.Fatalf("request %d: denied %v, candidate %+v", i, l.Denies, l.Candidate)
			}
		}
		e.decide("tried", "x", 1)
	}
	for i, candidate := range []bool{true, true, true, false} { // beside another limit
		if l := e.why("tried+user", "y", 1).Limits[0]; l.Rule != "tries" || l.Candidate.Allowed != candidate || l.Denies != (i > 1) {
			t.Fatalf("request %d beside another: denied %v, candidate %+v", i, l.Denies, l.Candidate)
		}
		e.decide("tried+user", "y", 1)
	}
	if a, b := e.why("user", "a", 1).Limits[0], e.why("user", "b", 1).Limits[0]; a.Candidate != nil || a.Key == "" || a.Key == b.Key {
		t.Errorf("candidate %+v, keys %q and %q", a.Candidate, a.Key, b.Key)
	}
}

// describe returns a request with a descriptor for each key, as KEY or KEY+KEY.
func describe(keys, value string, cost uint32) *limiter.Request {
	req := &limiter.Request{Domain: "api"}
	for key := range strings.SplitSeq(keys, "+") {
		req.Descriptors = append(req.Descriptors, limiter.Descriptor{Entries: []rule.Entry{{Key: key, Value: value}}, Cost: cost})
	}
	return req
}

// ask sends a request to the API.
func (e *explained) ask(method, target, body string, status int, answer any) {
	e.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	if w.Code != status {
		e.t.Fatalf("%s %s: status %d, want %d: %s", method, target, w.Code, status, w.Body)
	}
	if answer != nil {
		testkit.Must(e.t, json.Unmarshal(w.Body.Bytes(), answer))
	}
}

func (e *explained) why(key, value string, cost uint32) (a factsapi.WhyAnswer) {
	e.t.Helper()
	body, err := json.Marshal(map[string]any{"key": key, "value": value, "cost": cost})
	testkit.Must(e.t, err)
	e.ask("POST", "/v1/why", string(body), http.StatusOK, &a)
	return a
}

func (e *explained) decide(key, value string, cost uint32) bool {
	e.t.Helper()
	var v limiter.Verdict
	testkit.Must(e.t, e.limiter.Decide(context.Background(), describe(key, value, cost), &v))
	return v.Allowed
}

// texts returns the texts of changes.
func texts(changes []factsapi.WhyChange) string {
	var all []string
	for _, c := range changes {
		all = append(all, c.Text)
	}
	return strings.Join(all, "; ")
}

// denied checks why a request is denied, makes the change by do, and checks that it then passes.
func (e *explained) denied(key, value string, cost uint32, reason limiter.Reason, smallest string, do func(a factsapi.WhyAnswer)) {
	e.t.Helper()
	a := e.why(key, value, cost)
	if a.Allowed || a.Reason != reason || texts(a.Smallest) != smallest {
		e.t.Errorf("%s=%s: allowed %v, reason %s, smallest %q, want %s, %q", key, value, a.Allowed, a.Reason, texts(a.Smallest), reason, smallest)
	}
	if e.decide(key, value, cost) {
		e.t.Errorf("%s=%s passes without the change", key, value)
	}
	do(a)
	if again := e.why(key, value, cost); !again.Allowed || again.WaitMS != 0 || !e.decide(key, value, cost) {
		e.t.Errorf("%s=%s does not pass with the change: %+v", key, value, again)
	}
}

// override makes the override that an answer names.
func (e *explained) override(target string) func(a factsapi.WhyAnswer) {
	return func(a factsapi.WhyAnswer) {
		for _, c := range a.Smallest {
			if c.Override == nil {
				e.t.Fatalf("%s: no override makes the change %q", target, c.Text)
			}
			samples.Put(e.t, e.file, records.Override{Target: target, Rule: c.Rule, Requests: c.Override.Requests, Burst: c.Override.Burst})
		}
	}
}

// TestWhyChanges makes each change that an answer names as an operator does, and decides again.
func TestWhyChanges(t *testing.T) {
	e := newExplained(t, nil)
	for range 9 {
		e.decide("user", "7", 1)
	}
	if a := e.why("user", "7", 1); !a.Allowed || *a.Limits[0].Before.Used != 9 || *a.Limits[0].After.Used != 10 || len(a.Smallest) != 0 {
		t.Errorf("a request that passes: %+v", a)
	}
	e.denied("user", "7", 3, limiter.ReasonRateLimited, "requests 10 -> 12", e.override("user=7"))
	if a := e.why("user", "7", 1); a.Limits[0].Override == nil || a.Limits[0].Override.Target != "user=7" {
		t.Errorf("the override is not shown: %+v", a)
	}

	samples.Put(t, e.file, records.Ban{Subject: "user=8", Until: time.Now().Add(time.Hour)})
	if a := e.why("user", "8", 1); a.Barred == nil || a.Barred.Ban != limiter.BannedSubject || a.WaitMS < 3_500_000 || len(a.Limits) != 1 || !a.Limits[0].Allowed {
		t.Errorf("banned: %+v", a)
	}
	e.denied("user", "8", 1, limiter.ReasonBanned, "end the ban, which stint bans shows", func(factsapi.WhyAnswer) {
		_, err := e.file.Apply(t.Context(), records.Change{Edits: []records.Edit{{Delete: records.Ban{Subject: "user=8"}.ID()}}}, time.Now())
		testkit.Must(t, err)
	})
	if a := e.why("user", "mallory", 1); a.Allowed || a.Barred == nil || texts(a.Smallest) != "take the client out of the list api/deny#1 (rules.yaml:4)" || a.WaitMS != -1 {
		t.Errorf("listed: %+v", a)
	}
	if a := e.why("user", "root", 1); !a.Allowed || a.Barred == nil || !a.Barred.Exempt {
		t.Errorf("exempt: %+v", a)
	}
	if a := e.why("nobody", "1", 1); a.Allowed || a.Reason != limiter.ReasonUnmatched || len(a.Unmatched) != 1 {
		t.Errorf("unmatched: %+v", a)
	}

	for range 4 {
		e.decide("login", "9", 1)
	}
	if a := e.why("login", "9", 1); a.Limits[0].Penalized == nil || a.Limits[0].Penalized.Until == nil || a.WaitMS < 3_000_000 {
		t.Errorf("penalized: %+v", a)
	}
	e.denied("login", "9", 1, limiter.ReasonPenalized, "reset the key, which ends the step of its penalty", func(factsapi.WhyAnswer) {
		req := describe("login", "9", 0)
		req.Op = stint.Reset
		var v limiter.Verdict
		testkit.Must(t, e.limiter.Decide(context.Background(), req, &v))
	})

	for range 5 {
		e.decide("tenant", "1", 1)
	}
	if a := e.why("tenant", "1", 3); !a.Allowed || !a.Limits[0].Over {
		t.Errorf("borrowed: %+v", a)
	}
	e.denied("tenant", "1", 4, limiter.ReasonRateLimited, "requests 5 -> 9", e.override("tenant=1"))

	e.decide("trial", "1", 1)
	if a := e.why("trial", "1", 1); !a.Allowed || a.Limits[0].Allowed || a.Limits[0].Denies || len(a.Limits[0].Changes) == 0 {
		t.Errorf("shadow: %+v", a)
	}
	e.decide("burst", "1", 3)
	e.denied("burst", "1", 2, limiter.ReasonRateLimited, "burst 3 -> 5", e.override("burst=1"))
}

// TestWhyWaits checks the other changes: to wait, and to ask for less.
func TestWhyWaits(t *testing.T) {
	e := newExplained(t, nil)
	e.decide("burst", "1", 2)
	a := e.why("burst", "1", 3)
	kinds := map[string]bool{}
	for _, c := range a.Limits[0].Changes {
		kinds[string(c.Kind)] = true
	}
	if !kinds["wait"] || !kinds["cost"] || !kinds["burst"] || a.WaitMS < 1 || a.WaitMS > 2000 || a.Limits[0].RetryAfterMS != a.WaitMS {
		t.Errorf("%+v", a)
	}
	if a := e.why("burst", "1", 4); a.WaitMS != -1 {
		t.Errorf("a cost above the burst passes after %d ms", a.WaitMS)
	}
}

// log is a log of denials.
type log struct {
	facts.Reader
	lines []facts.Denial
}

func (l *log) Denials(n int, match func(*facts.Denial) bool) (found []facts.Denial) {
	for i := range l.lines {
		if match(&l.lines[i]) && len(found) < n {
			found = append(found, l.lines[i])
		}
	}
	return found
}

// TestWhyByRequest finds a request in the log of denials.
func TestWhyByRequest(t *testing.T) {
	e := newExplained(t, &log{lines: []facts.Denial{{RequestID: "a", Domain: "api", Rule: "users"}, {RequestID: "b", Domain: "api", Rule: "gone"}}})
	var answer struct {
		RequestID string `json:"request_id"`
		Denials   []struct {
			facts.Denial
			Config *struct{ Algorithm string }
		}
	}
	e.ask("GET", "/v1/why?request_id=a", "", http.StatusOK, &answer)
	if len(answer.Denials) != 1 || answer.Denials[0].Rule != "users" || answer.Denials[0].Config == nil {
		t.Errorf("%+v", answer)
	}
	e.ask("GET", "/v1/why?request_id=b", "", http.StatusOK, &answer)
	if len(answer.Denials) != 1 || answer.Denials[0].Rule != "gone" {
		t.Errorf("%+v", answer)
	}
	e.ask("GET", "/v1/why?request_id=c", "", http.StatusNotFound, nil)
	e.ask("GET", "/v1/why", "", http.StatusBadRequest, nil)
	e.ask("GET", "/v1/why?request=c", "", http.StatusBadRequest, nil)
	e.ask("PUT", "/v1/why", "", http.StatusMethodNotAllowed, nil)
	e.ask("POST", "/v1/why", "{", http.StatusBadRequest, nil)
	newExplained(t, nil).ask("GET", "/v1/why?request_id=a", "", http.StatusNotFound, nil)
}
