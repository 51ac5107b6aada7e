package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

var (
	now = stint.At(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))
	ctx = context.Background()
)

func table(t testing.TB, yaml string) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(yaml)})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func newLimiter(t testing.TB, yaml string, observer Observer) *Limiter {
	t.Helper()
	store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
	return New(store, table(t, yaml), Options{Observer: observer})
}

// describe makes a request of domain api, with one descriptor for each pair.
func describe(cost uint32, pairs ...string) *Request {
	req := &Request{Domain: "api"}
	for i := 0; i < len(pairs); i += 2 {
		req.Descriptors = append(req.Descriptors, Descriptor{Entries: []rule.Entry{{Key: pairs[i], Value: pairs[i+1]}}, Cost: cost})
	}
	return req
}

func name(r *rule.Rule) string {
	if r == nil {
		return ""
	}
	return r.Name
}

const twoRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 3}
`

// step is one request and the expected verdict.
type step struct {
	req       *Request
	allowed   bool
	rule      string
	remaining int64
	results   string // one letter for each descriptor: allowed, denied, unmatched
}

func run(t *testing.T, l *Limiter, steps []step) {
	t.Helper()
	var v Verdict
	for i, s := range steps {
		if err := l.Decide(ctx, s.req, &v); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		results := ""
		for _, r := range v.Results {
			switch {
			case r.Rule == nil:
				results += "u"
			case r.Allowed:
				results += "a"
			default:
				results += "d"
			}
		}
		if v.Allowed != s.allowed || name(v.Rule) != s.rule || v.Remaining != s.remaining || results != s.results {
			t.Fatalf("step %d: allowed=%v rule=%q remaining=%d results=%q, want %+v", i, v.Allowed, name(v.Rule), v.Remaining, results, s)
		}
	}
}

// TestAllOrNone: if one limit denies a call, no other limit is charged, and the verdict names the
// rule that denied. For an allowed call it names the rule nearest to denying.
func TestAllOrNone(t *testing.T) {
	run(t, newLimiter(t, twoRules, nil), []step{
		{describe(1, "user", "1", "team", "1"), true, "api/team", 2, "aa"},
		{describe(2, "user", "1", "team", "1"), true, "api/team", 0, "aa"},
		{describe(1, "user", "1", "team", "1"), false, "api/team", 0, "ad"},
		{describe(0, "user", "1"), true, "api/user", 2, "a"},
		{describe(2, "user", "1", "team", "2"), true, "api/user", 0, "aa"},
		{describe(1, "team", "2", "user", "1"), false, "api/user", 0, "ad"},
		{describe(0, "team", "2"), true, "api/team", 1, "a"},
	})
}

// TestUnmatched: an unknown domain, a descriptor without a rule and an unlimited
// one are allowed without numbers.
func TestUnmatched(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - key: admin
    rate_limit: {unlimited: true}
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1}
`, nil)
	elsewhere := describe(1, "user", "1")
	elsewhere.Domain = "other"
	run(t, l, []step{
		{elsewhere, true, "", stint.NoLimit, "u"},
		{describe(1, "nobody", "1"), true, "", stint.NoLimit, "u"},
		{describe(1, "admin", "1"), true, "api/admin", stint.NoLimit, "a"},
		{describe(1, "admin", "1", "user", "1", "x", "y"), true, "api/user", 0, "aau"},
	})
	run(t, New(l.store, nil, Options{}), []step{{describe(1, "user", "1"), true, "", stint.NoLimit, "u"}})
}

// TestShadow: a limit in shadow mode counts, but shows its numbers only to the observer. It never
// denies, and is charged even if others deny.
func TestShadow(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - key: user
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 2}
`, nil)
	run(t, l, []step{
		{describe(1, "user", "1", "team", "1"), true, "api/team", 1, "aa"},
		{describe(1, "user", "1", "team", "1"), true, "api/team", 0, "aa"},
		{describe(1, "user", "2", "team", "1"), false, "api/team", 0, "ad"},
		{describe(1, "user", "2"), true, "", stint.NoLimit, "a"},
	})
	var v Verdict
	if err := l.Decide(ctx, describe(1, "user", "2"), &v); err != nil || v.Asked[0].Allowed {
		t.Errorf("the shadow limit of user 2, which was charged twice, says %+v, %v", v.Asked, err)
	}
}

// TestQuota: limits in quota mode deny only if all of them do.
func TestQuota(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - key: a
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
  - key: b
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 2}
`, nil)
	run(t, l, []step{
		{describe(1, "a", "1", "b", "1"), true, "api/a", 0, "aa"},
		{describe(1, "a", "1", "b", "1"), true, "api/b", 0, "da"},
		{describe(1, "a", "1", "b", "1"), false, "api/a", 0, "dd"},
	})
}

// TestNotAtomic: a domain with atomic: false charges each limit independently.
func TestNotAtomic(t *testing.T) {
	run(t, newLimiter(t, "atomic: false\n"+twoRules[1:], nil), []step{
		{describe(3, "user", "1", "team", "1"), true, "api/team", 0, "aa"},
		{describe(1, "user", "1", "team", "1"), false, "api/team", 0, "ad"},
		{describe(0, "user", "1"), true, "api/user", 1, "a"},
	})
}

// TestReplaces: a matched limit removes those that it names, even if it is itself removed.
func TestReplaces(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {name: plain, unit: hour, requests_per_unit: 1}
  - key: premium
    rate_limit: {name: premium, unit: hour, requests_per_unit: 3, replaces: [{name: plain}]}
  - key: gold
    rate_limit: {name: gold, unlimited: true, replaces: [{name: premium}]}
`, nil)
	run(t, l, []step{
		{describe(1, "user", "1", "premium", "yes"), true, "premium", 2, "ua"},
		{describe(1, "user", "1"), true, "plain", 0, "a"},
		{describe(1, "user", "1", "premium", "yes", "gold", "yes"), true, "gold", stint.NoLimit, "uua"},
	})
}

// TestInline: a limit in the request has a namespace of its own.
func TestInline(t *testing.T) {
	l := newLimiter(t, twoRules, nil)
	limit := stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour})
	var v Verdict
	for i, allowed := range []bool{true, true, false} {
		if err := l.DecideInline(ctx, "api/user|1:1", limit, describe(1, "", ""), &v); err != nil {
			t.Fatal(err)
		}
		if v.Allowed != allowed || v.Rule != nil || v.Limit != 2 || len(v.Results) != 1 {
			t.Errorf("take %d: %+v", i, v)
		}
	}
	run(t, l, []step{{describe(0, "user", "1"), true, "api/user", 5, "a"}})
}

// TestSoft: a limit of 10 with soft: 20% lets 12 pass. The caller sees the plain limit. Only takes
// that passed above it are marked, not peeks and not calls that another limit denied.
func TestSoft(t *testing.T) {
	l := newLimiter(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 10, soft: 20%}
  - key: bucket
    rate_limit: {unit: hour, requests_per_unit: 10, burst: 5, algorithm: token_bucket, soft: 20%}
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 1}
`, nil)
	var v Verdict
	for i, want := range []struct {
		req       *Request
		allowed   bool
		over      bool
		limit     int64
		remaining int64
	}{
		{describe(9, "user", "1"), true, false, 10, 1},
		{describe(1, "user", "1"), true, false, 10, 0},
		{describe(1, "user", "1"), true, true, 10, 0},
		{describe(0, "user", "1"), true, false, 10, 0},
		{describe(2, "user", "1"), false, false, 10, 0},
		{describe(1, "user", "1"), true, true, 10, 0},
		{describe(1, "user", "1"), false, false, 10, 0},
		{describe(11, "user", "2"), true, true, 10, 0},
		{describe(13, "user", "3"), false, false, 10, 10},
		{describe(5, "bucket", "1"), true, false, 5, 0},
		{describe(1, "bucket", "1"), true, true, 5, 0},
		{describe(1, "bucket", "1"), false, false, 5, 0},
		{describe(1, "team", "1"), true, false, 1, 0},
		{describe(1, "team", "1", "user", "4"), false, false, 1, 0},
	} {
		if err := l.Decide(ctx, want.req, &v); err != nil {
			t.Fatal(err)
		}
		if v.Allowed != want.allowed || v.Over != want.over || v.Limit != want.limit || v.Remaining != want.remaining {
			t.Errorf("step %d: %+v, want %+v", i, v.Decision, want)
		}
	}
}

// TestUndo: Undo gives back exactly the units that the request took.
func TestUndo(t *testing.T) {
	l := newLimiter(t, twoRules, nil)
	var first, denied, v Verdict
	decide := func(v *Verdict, cost uint32) {
		t.Helper()
		if err := l.Decide(ctx, describe(cost, "user", "1", "team", "1"), v); err != nil {
			t.Fatal(err)
		}
	}
	decide(&first, 2)
	decide(&v, 1)
	decide(&denied, 1)
	for _, v := range []*Verdict{&denied, &first, &first} {
		if err := l.Undo(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	run(t, l, []step{{describe(0, "user", "1", "team", "1"), true, "api/team", 2, "aa"}})
}

// TestSwap: a request uses the current table, and keys keep their state.
func TestSwap(t *testing.T) {
	l := newLimiter(t, twoRules, nil)
	run(t, l, []step{
		{describe(3, "team", "1"), true, "api/team", 0, "a"},
		{describe(1, "team", "1"), false, "api/team", 0, "d"},
	})
	l.Swap(table(t, `
domain: api
descriptors:
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 10}
`))
	run(t, l, []step{{describe(1, "team", "1"), true, "api/team", 6, "a"}})
}

// broken is a store that cannot decide.
type broken struct{}

var errBroken = errors.New("broken")

func (broken) Decide(context.Context, *stint.Call) error { return errBroken }

// witness counts the calls of Decided.
type witness struct{ verdicts, errors, measured int }

func (w *witness) Decided(_ *Verdict, took time.Duration, err error) {
	w.verdicts++
	if err != nil {
		w.errors++
	}
	if took >= 0 {
		w.measured++
	}
}

// TestObserver: the observer gets every decision once, failures too, and some are measured.
func TestObserver(t *testing.T) {
	w := new(witness)
	l := New(broken{}, table(t, twoRules), Options{Observer: w})
	var v Verdict
	const n = 5000
	for i := range n {
		if i == 1 && w.measured != 1 {
			t.Error("the first decision was not measured")
		}
		if err := l.Decide(ctx, describe(1, "user", "1"), &v); !errors.Is(err, errBroken) {
			t.Fatalf("got %v", err)
		}
		if len(v.Asked) != 1 || name(v.Asked[0].Rule) != "api/user" {
			t.Fatalf("after an error %+v was asked", v.Asked)
		}
	}
	if w.verdicts != n || w.errors != n || w.measured == 0 || w.measured > n/8 {
		t.Errorf("%+v of %d decisions", w, n)
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	if testkit.Race {
		return // the race detector makes sync.Pool drop items on purpose
	}
	l := newLimiter(t, twoRules, new(witness))
	for _, req := range []*Request{describe(1, "user", "1"), describe(1, "user", "1", "team", "1"), describe(1, "x", "y")} {
		var v Verdict
		if n := testing.AllocsPerRun(1000, func() { _ = l.Decide(ctx, req, &v) }); n != 0 {
			t.Errorf("%d descriptors: %v allocations", len(req.Descriptors), n)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	l := New(memory.New(memory.Options{}), table(b, twoRules), Options{})
	for _, req := range []*Request{describe(1, "user", "1"), describe(1, "user", "1", "team", "1")} {
		b.Run([]string{"", "one", "two"}[len(req.Descriptors)], func(b *testing.B) {
			var v Verdict
			for b.Loop() {
				_ = l.Decide(ctx, req, &v)
			}
		})
	}
	b.Run("candidate", func(b *testing.B) {
		l := New(memory.New(memory.Options{}), table(b, tried), Options{})
		var v Verdict
		for b.Loop() {
			_ = l.Decide(ctx, describedUser, &v)
		}
	})
}

// describedUser is a request of one limit.
var describedUser = describe(1, "user", "1")

// A limit that counts like that of envoyproxy/ratelimit charges requests that it denies. A peek is
// over if more than the limit is used, but only with Request.Debt.
func TestTally(t *testing.T) {
	file := rulefile.Source{Name: "rules.yaml", Envoy: true, Data: []byte(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
  - key: none
    rate_limit: {unit: hour, requests_per_unit: 0}
`)}
	table, err := rulefile.Parse(file)
	testkit.Must(t, err)
	l := New(memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }}), table, Options{})
	half := 30 * time.Minute
	own := stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour})
	var v Verdict
	for i, step := range []struct {
		key       string
		cost      uint32
		debt      bool
		allowed   bool
		remaining int64
		retry     time.Duration
	}{
		{"user", 0, true, true, 5, 0},
		{"user", 5, true, true, 0, 0},
		{"user", 0, true, true, 0, 0}, // all is used, and not more
		{"user", 1, true, false, 0, half},
		{"user", 0, true, false, 0, half},
		{"user", 0, false, true, 0, 0},
		{"user", 6, true, false, 0, stint.Never},
		{"none", 0, true, true, 0, 0},
		{"none", 1, true, false, 0, stint.Never},
		{"none", 0, true, false, 0, half},
		{"own", 3, true, false, 0, stint.Never},
		{"own", 0, true, false, 0, half},
	} {
		req := describe(step.cost, step.key, "a")
		req.Debt = step.debt
		if step.key == "own" {
			req.Descriptors[0].Limit, req.Descriptors[0].Tally = own, limits.CountingDenied(own)
		}
		testkit.Must(t, l.Decide(ctx, req, &v))
		want := map[string]int64{"user": 5, "own": 2}[step.key]
		if v.Allowed != step.allowed || v.Remaining != step.remaining || v.RetryAfter != step.retry || v.Limit != want || v.ResetAfter != half {
			t.Errorf("step %d: %+v, want %+v", i, v.Decision, step)
		}
	}
	l = newLimiter(t, "domain: api\natomic: true\ndescriptors: [{key: user}]\n", nil)
	for _, cost := range []uint32{3, 1} {
		req := describe(cost, "own", "a")
		req.Descriptors[0].Limit, req.Descriptors[0].Tally = own, limits.CountingDenied(own)
		testkit.Must(t, l.Decide(ctx, req, &v))
	}
	if !v.Allowed || v.Remaining != 1 {
		t.Errorf("in a domain that is atomic: %+v", v.Decision)
	}
}
