package limiter

import (
	"testing"
	"time"

	"stint"
	"stint/rule"
)

const loginRules = `
domain: api
descriptors:
  - key: user
    descriptors:
      - key: remote_address
        rate_limit: {requests: 2, per: 1m, align: first, penalty: {after: 2, ladder: [5m, 1h], decay: 1h}}
  - key: team
    rate_limit: {requests: 1, per: 2h, align: first}
  - key: other
    rate_limit: {requests: 10, per: 1m}
  - key: dry
    shadow_mode: true
    rate_limit: {requests: 1, per: 1m, align: first, penalty: {after: 1, ladder: [5m]}}
`

// login makes a request of a user from an address, and further descriptors.
func login(cost uint32, at time.Duration, user, address string, pairs ...string) *Request {
	req := describe(cost, pairs...)
	req.At = now.Add(at)
	req.Descriptors = append([]Descriptor{{Entries: []rule.Entry{{Key: "user", Value: user}, {Key: "remote_address", Value: address}}, Cost: cost}}, req.Descriptors...)
	return req
}

// TestPenalty: the try after the last forgiven one starts a step, and its answer says until when.
// While it runs the whole call is denied and charges nothing; then the key is free exactly on time.
func TestPenalty(t *testing.T) {
	l := newLimiter(t, loginRules, nil)
	var v Verdict
	for i, s := range []struct {
		req       *Request
		allowed   bool
		penalized bool
		retry     time.Duration
	}{
		{login(1, 0, "ann", "a"), true, false, 0},
		{login(1, 0, "ann", "a"), true, false, 0},
		{login(1, time.Second, "ann", "a"), false, false, 59 * time.Second},   // 1
		{login(1, 2*time.Second, "ann", "a"), false, false, 58 * time.Second}, // 2
		{login(1, 3*time.Second, "ann", "a"), false, true, 5 * time.Minute},   // the step starts
		{login(1, 3*time.Second, "ann", "b"), true, false, 0},                 // another pair
		{login(1, 3*time.Second, "bob", "a"), true, false, 0},                 // an account at the same address
		{login(1, 63*time.Second, "ann", "a"), false, true, 4 * time.Minute},  // the limit itself would pass
		{login(1, 63*time.Second, "ann", "a", "other", "x"), false, true, 4 * time.Minute},
		{login(1, 303*time.Second-time.Microsecond, "ann", "a"), false, true, time.Microsecond},
		{login(1, 303*time.Second, "ann", "a", "other", "x"), true, false, 0},
	} {
		if err := l.Decide(ctx, s.req, &v); err != nil {
			t.Fatal(err)
		}
		if v.Allowed != s.allowed || v.Penalized != s.penalized || v.RetryAfter != s.retry || v.Results[0].Penalized != s.penalized {
			t.Fatalf("step %d: allowed %v penalized %v retry %v", i, v.Allowed, v.Penalized, v.RetryAfter)
		}
		if want := reasonFor(s.allowed, s.penalized); v.Reason() != want || v.ReasonOf(0) != want {
			t.Errorf("step %d: reason %q, want %q", i, v.Reason(), want)
		}
		if n := len(v.Results); n > 1 && !v.Results[1].Allowed {
			t.Errorf("step %d: the other limit denies: %+v", i, v.Results[1])
		}
	}
	if v.Remaining != 1 || v.Results[1].Remaining != 9 {
		t.Errorf("the denied calls were charged: %d, %d", v.Remaining, v.Results[1].Remaining)
	}
}

// TestPenaltyCountsOwnDenials: looks, refunds, and requests that another limit denied count nothing.
func TestPenaltyCountsOwnDenials(t *testing.T) {
	l := newLimiter(t, loginRules, nil)
	var v Verdict
	do := func(req *Request) *Verdict {
		t.Helper()
		if err := l.Decide(ctx, req, &v); err != nil {
			t.Fatal(err)
		}
		return &v
	}
	level := func() (int64, uint8) {
		t.Helper()
		look := login(0, 0, "ann", "a")
		look.Penalties = true
		d, asked := do(look).Penalty(0)
		if !asked {
			t.Fatal("the penalty was not asked")
		}
		return d.Remaining, uint8(d.Debt)
	}
	do(login(2, 0, "ann", "a", "team", "x")) // denied by team
	do(login(2, 0, "ann", "a"))
	do(login(0, 0, "ann", "a"))
	back := login(1, 0, "ann", "a")
	back.Descriptors[0].Refund = true
	do(back)
	do(login(1, 0, "ann", "a"))
	do(login(0, 0, "ann", "a", "team", "x"))
	if left, _ := level(); left != 3 {
		t.Fatalf("%d tries left before any was denied, want 3", left)
	}
	for range 3 {
		do(login(1, 0, "ann", "a"))
	}
	if left, n := level(); left != 0 || n != 1 || v.Allowed != true || v.Penalized {
		t.Errorf("%d tries left on level %d; a look is %+v", left, n, v.Decision)
	}
	if d, asked := do(login(0, 0, "ann", "a")).Penalty(0); asked || !v.Allowed {
		t.Errorf("a plain look asks the penalty: %+v", d)
	}
	for range 5 {
		do(login(1, 6*time.Minute, "ann", "a", "team", "x")) // charges team
	}
	reset := login(0, 6*time.Minute, "ann", "a")
	reset.Op = stint.Reset
	do(reset)
	if left, n := level(); left != 3 || n != 0 {
		t.Errorf("after a reset %d tries are left on level %d", left, n)
	}
	if !do(login(1, 6*time.Minute, "ann", "a")).Allowed {
		t.Errorf("after a reset: %+v", v.Decision)
	}
}

// TestPenaltyBesideOtherLimit: a penalty decides before another limit that denies, and never waits
// for less than it.
func TestPenaltyBesideOtherLimit(t *testing.T) {
	l := newLimiter(t, loginRules, nil)
	var v Verdict
	for range 5 {
		if err := l.Decide(ctx, login(1, 0, "ann", "a"), &v); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Decide(ctx, at(describe(1, "team", "x"), 0), &v); err != nil || !v.Allowed {
		t.Fatal(err, v.Decision)
	}
	if err := l.Decide(ctx, login(1, 0, "ann", "a", "team", "x"), &v); err != nil {
		t.Fatal(err)
	}
	if !v.Penalized || v.Rule.Name != "api/user/remote_address" || v.RetryAfter != 2*time.Hour || v.Results[1].Penalized {
		t.Errorf("penalized %v by %s, retry %v", v.Penalized, name(v.Rule), v.RetryAfter)
	}
}

// TestPenaltyInShadow: a penalty in shadow mode counts, and denies nobody; what its limit was charged
// is given back with the request.
func TestPenaltyInShadow(t *testing.T) {
	l := newLimiter(t, loginRules, nil)
	var v Verdict
	for i := range 4 {
		if err := l.Decide(ctx, at(describe(1, "dry", "x"), 0), &v); err != nil {
			t.Fatal(err)
		}
		if !v.Allowed || v.Penalized || v.Reason() != "" || v.Asked[0].Penalized != (i > 1) {
			t.Fatalf("try %d: %+v penalized %v", i, v.Decision, v.Asked[0].Penalized)
		}
	}
	if err := l.Decide(ctx, at(describe(1, "dry", "x"), time.Minute), &v); err != nil || !v.Asked[0].Penalized {
		t.Fatal(err, v.Asked)
	}
	if err := l.Undo(ctx, &v); err != nil {
		t.Fatal(err)
	}
	if err := l.Decide(ctx, at(describe(0, "dry", "x"), time.Minute), &v); err != nil || v.Results[0].Remaining != 1 {
		t.Errorf("%d remain after the undo, %v", v.Results[0].Remaining, err)
	}
}

// at sets the time of a request.
func at(req *Request, after time.Duration) *Request {
	req.At = now.Add(after)
	return req
}

func reasonFor(allowed, penalized bool) Reason {
	switch {
	case allowed:
		return ""
	case penalized:
		return ReasonPenalized
	}
	return ReasonRateLimited
}

// TestPenaltyOfPolicies: denials of a failure policy count nothing, and the penalty of a rule denies
// nobody while the store is away.
func TestPenaltyOfPolicies(t *testing.T) {
	store := &recorder{denies: true}
	l := New(store, table(t, loginRules), Options{})
	var v Verdict
	if err := l.Decide(ctx, login(1, 0, "ann", "a"), &v); err != nil {
		t.Fatal(err)
	}
	if len(store.takes) != 2 || store.takes[1].Op != stint.Ask {
		t.Fatalf("%d takes, the last %v: the denial was counted", len(store.takes), store.takes[len(store.takes)-1].Op)
	}
	if policy, _ := store.takes[1].OnFailure(); policy != stint.Allow || v.Penalized || v.Reason() != ReasonUnavailable {
		t.Errorf("policy %v, penalized %v, reason %q", policy, v.Penalized, v.Reason())
	}
	if one, two := store.takes[0].Place(), store.takes[1].Place(); one != two || store.takes[0].Key == store.takes[1].Key {
		t.Errorf("the limit lies at %q, its penalty at %q", one, two)
	}
}
