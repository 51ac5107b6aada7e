package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stint"
	"stint/rule"
	"stint/rule/denial"
	"stint/store/memory"
)

const tried = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests: 2, candidate: {requests: 4}}
  - key: team
    rate_limit: {unit: hour, requests: 3}
`

// candidateOf decides a request and returns whether it passed, and the only candidate of it.
func candidateOf(t *testing.T, l *Limiter, req *Request, v *Verdict) (allowed bool, c Candidate) {
	t.Helper()
	if err := l.Decide(ctx, req, v); err != nil {
		t.Fatal(err)
	}
	if len(v.Candidates) != 1 {
		t.Fatalf("%d candidates: %+v", len(v.Candidates), v.Candidates)
	}
	return v.Allowed, v.Candidates[0]
}

// A candidate is charged if it has room and no other limit denies, whatever its own limit decides, and
// changes no answer.
func TestCandidateBesideItsLimit(t *testing.T) {
	l := newLimiter(t, tried, nil)
	var v Verdict
	for i, step := range []struct {
		req       *Request
		allowed   bool
		candidate bool
		remaining int64
		beside    bool
	}{
		{describe(1, "user", "a"), true, true, 3, false},
		{describe(1, "user", "a"), true, true, 2, false},
		{describe(1, "user", "a"), false, true, 1, false}, // its limit denies, it does not
		{describe(1, "user", "a", "team", "x"), false, true, 0, false},
		{describe(1, "user", "a", "team", "x"), false, false, 0, false},
		{describe(3, "team", "y", "user", "b"), false, true, 1, false},
		{describe(1, "user", "c", "team", "z"), true, true, 3, false},
		{describe(2, "team", "z", "user", "d"), true, true, 2, false},
		{describe(1, "team", "z", "user", "c"), false, true, 3, true}, // another limit denies: not charged
		{describe(4, "team", "z", "user", "c"), false, false, 3, true},
		{describe(0, "user", "c"), true, true, 3, false},
		{describe(3, "user", "c"), false, true, 0, false},
	} {
		allowed, c := candidateOf(t, l, step.req, &v)
		if allowed != step.allowed || c.Allowed != step.candidate || c.Remaining != step.remaining || c.Beside != step.beside {
			t.Errorf("step %d: allowed %v, candidate %+v; want %+v", i, allowed, c, step)
		}
		if v.Rule == c.Rule || v.Rule != v.Asked[0].Rule && v.Rule != v.Asked[len(v.Asked)-1].Rule {
			t.Errorf("step %d: the verdict shows %s", i, name(v.Rule))
		}
	}
}

// The verdict with a candidate is that without it, in all but Candidates.
func TestCandidateChangesNoVerdict(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: minute, requests: 5, algorithm: token_bucket%s}
    descriptors: [{key: path, rate_limit: {per: 10s, requests: 2, algorithm: sliding_log, count_denied: true%s}}]
  - key: team
    rate_limit: [{unit: minute, requests: 9, soft: 50%%%s}, {unit: hour, requests: 200, overdraw: true%s}]
`
	with := newLimiter(t, fmt.Sprintf(rules, ", candidate: {requests: 3}", ", candidate: {requests: 1}", ", candidate: {algorithm: sliding_log}", ", candidate: {requests: 50}"), nil)
	without := newLimiter(t, fmt.Sprintf(rules, "", "", "", ""), nil)
	r := rand.New(rand.NewPCG(1, 2))
	var v, w Verdict
	candidates := 0
	for i := range 3000 {
		req := &Request{Domain: "api", At: now.Add(time.Duration(i) * 100 * time.Millisecond)}
		for range 1 + r.IntN(3) {
			d := Descriptor{Cost: uint32(r.IntN(3)), Entries: []rule.Entry{{Key: []string{"user", "team"}[r.IntN(2)], Value: fmt.Sprint(r.IntN(3))}}}
			if r.IntN(2) == 0 && d.Entries[0].Key == "user" {
				d.Entries = append(d.Entries, rule.Entry{Key: "path", Value: "/"})
			}
			req.Descriptors = append(req.Descriptors, d)
		}
		err, plainErr := with.Decide(ctx, req, &v), without.Decide(ctx, req, &w)
		if (err == nil) != (plainErr == nil) {
			t.Fatalf("request %d: %v and %v", i, err, plainErr)
		}
		if err != nil {
			continue
		}
		candidates += len(v.Candidates)
		if v.Decision != w.Decision || name(v.Rule) != name(w.Rule) || len(v.Results) != len(w.Results) {
			t.Fatalf("request %d: %+v, without the candidates %+v", i, v.Decision, w.Decision)
		}
		for n := range v.Results {
			if v.Results[n].Decision != w.Results[n].Decision {
				t.Fatalf("request %d: descriptor %d: %+v, without %+v", i, n, v.Results[n].Decision, w.Results[n].Decision)
			}
		}
		if r.IntN(8) == 0 {
			if err := with.Undo(ctx, &v); err != nil {
				t.Fatal(err)
			}
			if err := without.Undo(ctx, &w); err != nil {
				t.Fatal(err)
			}
		}
	}
	if candidates < 3000 {
		t.Errorf("only %d candidates were asked", candidates)
	}
}

// flips are limits and candidates of many algorithms.
var flips = [][2]string{
	{"unit: minute, requests: 20", "requests: 30"},
	{"unit: minute, requests: 20", "requests: 10"},
	{"unit: minute, requests: 20", "algorithm: token_bucket"},
	{"unit: minute, requests: 20, algorithm: token_bucket", "algorithm: token_bucket, burst: 5"},
	{"unit: minute, requests: 20, algorithm: token_bucket", "algorithm: sliding_log"},
	{"unit: minute, requests: 20, algorithm: sliding_log, count_denied: true", "requests: 15"},
	{"unit: minute, requests: 20, algorithm: sliding_log", "algorithm: sliding_window, blocks: 6"},
	{"unit: minute, requests: 20, algorithm: sliding_window", "algorithm: fixed_window, align: first"},
	{"unit: minute, requests: 20, soft: 20%", "requests: 30"},
	{"unit: minute, requests: 20, overdraw: true", "algorithm: token_bucket, burst: 7"},
	{"unit: minute, requests: 20", "algorithm: leaky_bucket, burst: 10"},
	{"unit: minute, requests: 20", "per: 10s, requests: 4"},
}

// What a candidate answers is what its limit answers after the candidate took its place, to the request.
func TestCandidatePredictsTheFlip(t *testing.T) {
	for _, flip := range flips {
		before := newLimiter(t, "domain: api\ndescriptors: [{key: user, rate_limit: {"+flip[0]+", candidate: {"+flip[1]+"}}}]\n", nil)
		tried := before.Table().Rules()[0].Candidate
		after := newLimiter(t, "domain: api\ndescriptors: [{key: user, rate_limit: {"+flip[0]+"}}]\n", nil)
		flipped := *after.Table().Rules()[0]
		flipped.Limit, flipped.Stored = tried.Limit, tried.Stored
		*after.Table().Rules()[0] = flipped
		r := rand.New(rand.NewPCG(3, 4))
		at, denied := now, 0
		var v, w Verdict
		for i := range 4000 {
			at = at.Add(time.Duration(r.IntN(2_000_000)) * time.Microsecond)
			req := describe(1+uint32(r.IntN(2)), "user", fmt.Sprint(r.IntN(2)))
			req.At = at
			_, c := candidateOf(t, before, req, &v)
			if err := after.Decide(ctx, req, &w); err != nil {
				t.Fatal(err)
			}
			if c.Decision != w.Asked[0].Decision {
				t.Fatalf("%v: request %d: the candidate answers %+v, after the flip the limit %+v", flip, i, c.Decision, w.Asked[0].Decision)
			}
			if !c.Allowed {
				denied++
			}
		}
		if denied == 0 {
			t.Errorf("%v: nothing was denied", flip)
		}
	}
}

// Undo gives a candidate its units back, and another candidate starts unused.
func TestCandidateUndoneAndReplaced(t *testing.T) {
	l := newLimiter(t, tried, nil)
	var v Verdict
	candidateOf(t, l, describe(2, "user", "a"), &v)
	if err := l.Undo(ctx, &v); err != nil {
		t.Fatal(err)
	}
	if _, c := candidateOf(t, l, describe(1, "user", "a"), &v); c.Remaining != 3 {
		t.Errorf("after an undone request %d remain, want 3", c.Remaining)
	}
	candidateOf(t, l, describe(2, "user", "a"), &v) // the limit denies, the candidate is charged
	if err := l.Undo(ctx, &v); err != nil {
		t.Fatal(err)
	}
	if _, c := candidateOf(t, l, describe(0, "user", "a"), &v); c.Remaining != 3 {
		t.Errorf("after an undone denial %d remain, want 3", c.Remaining)
	}
	limited := v.Asked[0].Remaining
	l.Swap(table(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests: 2, candidate: {requests: 5}}
`))
	_, c := candidateOf(t, l, describe(0, "user", "a"), &v)
	if c.Remaining != 5 || v.Asked[0].Remaining != limited {
		t.Errorf("another candidate has %d, the limit %d; want 5 and %d", c.Remaining, v.Asked[0].Remaining, limited)
	}
}

// A candidate of a limit that counts responses keeps what counts, gives back what does not, and is charged
// where its limit denied, since there is no response.
func TestCandidateCountsResponses(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "token_bucket"} {
		l := newLimiter(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests: 2, algorithm: `+algorithm+`, count: responses, statuses: [401], candidate: {requests: 4}}
`, nil)
		var v Verdict
		remaining := func() int64 {
			t.Helper()
			_, c := candidateOf(t, l, describe(0, "user", "a"), new(Verdict))
			return c.Remaining
		}
		for i, step := range []struct {
			status   int
			reserved bool
			want     int64
		}{{401, true, 3}, {200, true, 3}, {401, true, 2}, {0, false, 1}, {0, false, 0}} {
			req := describe(1, "user", "a")
			req.Answers = true
			candidateOf(t, l, req, &v)
			if v.Reserved() != step.reserved {
				t.Errorf("%s: step %d: reserved %v", algorithm, i, v.Reserved())
			}
			if step.reserved {
				if err := l.Settle(ctx, &v, step.status); err != nil {
					t.Fatal(err)
				}
			}
			if got := remaining(); got != step.want {
				t.Errorf("%s: step %d: %d remain, want %d", algorithm, i, got, step.want)
			}
		}
	}
}

// A request that waits for its limit is decided again, and its candidate is charged once.
func TestCandidateOfARequestThatWaits(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests: 1, excess: wait, candidate: {requests: 4}}
`, nil)
	var v Verdict
	req := describe(1, "user", "a")
	req.Hold = func(*Verdict) denial.Mode { return denial.Drop }
	candidateOf(t, l, req, &v)
	for range 3 { // it waits, and is denied again
		if err := l.Decide(ctx, req, &v); err != nil || !v.Pending {
			t.Fatalf("%v, pending %v", err, v.Pending)
		}
		if err := l.Undo(ctx, &v); err != nil {
			t.Fatal(err)
		}
	}
	l.Deny(ctx, &v, 0, ReasonExcessFull, time.Second)
	if _, c := candidateOf(t, l, describe(0, "user", "a"), new(Verdict)); c.Remaining != 2 {
		t.Errorf("%d remain after one request that passed and one that waited, want 2", c.Remaining)
	}
	if err := l.Decide(ctx, req, &v); err != nil || !v.Pending {
		t.Fatalf("%v, pending %v", err, v.Pending)
	}
	l.Deny(ctx, &v, 0, ReasonQueued, 0)
	if _, c := candidateOf(t, l, describe(0, "user", "a"), new(Verdict)); c.Remaining != 2 {
		t.Errorf("%d remain after a request was stored, want 2: it is charged when it is sent", c.Remaining)
	}
}

// An override changes the numbers of the candidate too, since it would if the candidate were the limit.
func TestCandidateUnderAnOverride(t *testing.T) {
	r := table(t, tried).Rules()[0]
	made, err := r.With(rule.Numbers{Requests: 7})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.Candidate.Limit.Capacity(); got != 7 {
		t.Errorf("the candidate has %d", got)
	}
	entries := []rule.Entry{{Key: "user", Value: "a"}}
	if a, b := string(r.AppendCandidate(nil, entries, nil)), string(made.AppendCandidate(nil, entries, nil)); a != b {
		t.Errorf("its key changes from %q to %q", a, b)
	}
	if made, err = r.With(rule.Numbers{Unlimited: true}); err != nil || made.Candidate != nil {
		t.Errorf("%v, an unlimited rule tries %v", err, made.Candidate)
	}
}

// Takes of one candidate in one request are decided as one, as those of its limit are.
func TestCandidateAskedTwice(t *testing.T) {
	l := newLimiter(t, tried, nil)
	var v Verdict
	candidateOf(t, l, describe(1, "user", "a"), &v)
	if err := l.Decide(ctx, describe(1, "user", "a", "user", "a"), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Candidates) != 2 || !v.Candidates[0].Allowed || !v.Candidates[1].Allowed || v.Candidates[1].Remaining != 1 {
		t.Errorf("%+v", v.Candidates)
	}
	if err := l.Undo(ctx, &v); err != nil {
		t.Fatal(err)
	}
	if _, c := candidateOf(t, l, describe(0, "user", "a"), &v); c.Remaining != 3 {
		t.Errorf("%d remain after the undone request, want 3", c.Remaining)
	}
	if err := l.Decide(ctx, describe(2, "user", "a", "user", "a"), &v); err != nil || v.Candidates[0].Allowed || v.Candidates[1].Allowed {
		t.Errorf("%v, 4 units of 3: %+v", err, v.Candidates)
	}
}

// A request that an overdrawn limit denies afterwards gives its candidates their units back, and a reset
// forgets their use.
func TestCandidateRevokedAndReset(t *testing.T) {
	l := newLimiter(t, tried+"  - {key: tokens, rate_limit: {unit: hour, requests: 1, overdraw: true}}\n", nil)
	var v Verdict
	if err := l.Decide(ctx, describe(2, "tokens", "a"), &v); err != nil || v.Allowed {
		t.Fatalf("%v, allowed %v", err, v.Allowed)
	}
	for _, own := range []bool{false, true} {
		req := describe(1, "user", "a", "tokens", "a")
		req.Debt, req.Descriptors[1].Cost = true, 0
		if own {
			req = describe(1, "user", "a")
		}
		if allowed, c := candidateOf(t, l, req, &v); allowed != own || !c.Allowed {
			t.Errorf("allowed %v, candidate %+v", allowed, c)
		}
		if _, c := candidateOf(t, l, describe(0, "user", "a"), &v); c.Remaining != map[bool]int64{false: 4, true: 3}[own] {
			t.Errorf("%d remain", c.Remaining)
		}
	}
	reset := describe(0, "user", "a")
	reset.Op = stint.Reset
	candidateOf(t, l, reset, &v)
	if _, c := candidateOf(t, l, describe(0, "user", "a"), &v); c.Remaining != 4 {
		t.Errorf("%d remain after a reset, want 4", c.Remaining)
	}
}

// A limit that is decided apart has a candidate that is decided apart.
func TestCandidateOfAShadowLimit(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - key: user
    shadow_mode: true
    rate_limit: {unit: hour, requests: 2, candidate: {requests: 4}}
  - key: team
    rate_limit: {unit: hour, requests: 0}
`, nil)
	var v Verdict
	for _, want := range []int64{3, 2, 1, 0} {
		if _, c := candidateOf(t, l, describe(1, "user", "a", "team", "x"), &v); c.Remaining != want {
			t.Errorf("%d remain, want %d", c.Remaining, want)
		}
	}
}

// A request for at most its cost charges a candidate no more than the other limits would have let pass.
func TestCandidateOfAtMost(t *testing.T) {
	l := newLimiter(t, tried, nil)
	var v Verdict
	req := describe(10, "user", "a", "team", "x")
	req.Op = stint.AskAtMost
	_, c := candidateOf(t, l, req, &v) // 2 units pass; with the candidate it would be the 3 of the team
	if v.Charged != 2 || c.Cost != 3 {
		t.Errorf("charged %d, the candidate %d", v.Charged, c.Cost)
	}
	if _, c = candidateOf(t, l, describe(0, "user", "a"), &v); c.Remaining != 1 {
		t.Errorf("%d remain, want 1", c.Remaining)
	}
}

// failing is a store that fails, or cannot read the state of some take.
type failing struct {
	stint.Store
	err error
}

func (f failing) Decide(ctx context.Context, call *stint.Call) error {
	_ = f.Store.Decide(ctx, call)
	return f.err
}

// The error about a candidate's state denies nobody.
func TestCandidateThatCannotBeRead(t *testing.T) {
	l := New(failing{memory.New(memory.Options{}), &stint.CorruptState{Takes: []int{1}}}, table(t, tried), Options{})
	var v Verdict
	if allowed, c := candidateOf(t, l, describe(1, "user", "a"), &v); !allowed || !c.Degraded || v.Degraded {
		t.Errorf("allowed %v, degraded %v, candidate %+v", allowed, v.Degraded, c)
	}
	l = New(failing{memory.New(memory.Options{}), &stint.CorruptState{Takes: []int{0}}}, table(t, tried), Options{})
	if err := l.Decide(ctx, describe(1, "user", "a"), &v); err == nil {
		t.Error("the error about the limit itself is lost")
	}
}
