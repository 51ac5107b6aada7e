package inforce_test

import (
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/records/index"
	"stint/records/inforce"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// A client has its grants from their begin to their end, to the second, beside its own plan and the default plan.
// Those of another limit, and of another client, do not count.
func TestGrants(t *testing.T) {
	begin := time.Now().Add(time.Hour).Truncate(time.Second)
	grant := func(subject, id, limit string, units uint32, from time.Time) records.Grant {
		return records.Grant{Subject: subject, Name: id, Limit: limit, Units: units, Priority: records.GrantPriority, From: from, Until: begin.Add(time.Hour)}
	}
	file := samples.File(
		t,
		records.Subject{Name: "user=pro", Kind: records.User, Plan: "pro"},
		grant("user=pro", "a", "api", 100, time.Time{}), grant("user=pro", "b", "api", 1000, begin), grant("user=pro", "c", "export", 7, time.Time{}),
		grant("user=plain", "a", "api", 10, time.Time{}),
	)
	l := limiter.New(memory.New(memory.Options{}), planned(t), limiter.Options{Records: recordsOf(t, file)})
	limit := func(user string, at time.Time) int64 {
		t.Helper()
		req := request(1, "user", user)
		req.At = stint.At(at)
		var v limiter.Verdict
		testkit.Must(t, l.Decide(ctx, req, &v))
		return v.Limit
	}
	for _, step := range []struct {
		user string
		at   time.Time
		want int64
	}{
		{"pro", begin.Add(-time.Second), 150},
		{"pro", begin, 1150},
		{"pro", begin.Add(time.Hour - time.Second), 1150},
		{"pro", begin.Add(time.Hour), 50},
		{"plain", begin, 15},
		{"other", begin, 5},
	} {
		if got := limit(step.user, step.at); got != step.want {
			t.Errorf("%s at %v: limit %d, want %d", step.user, step.at.Sub(begin), got, step.want)
		}
	}
	_, err := file.Apply(ctx, records.Change{Edits: []records.Edit{{Delete: grant("user=pro", "b", "", 0, begin).ID()}}}, time.Now())
	testkit.Must(t, err)
	if got := limit("pro", begin); got != 150 {
		t.Errorf("limit %d after a grant was deleted", got)
	}
	forever := grant("user=other", "f", "api", 10, time.Time{})
	forever.Until = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	samples.Put(t, file, forever)
	if got := limit("other", begin); got != 15 {
		t.Errorf("limit %d with a grant that ends in the year 9999", got)
	}
}

// CheckGrant refuses a grant of a limit that no plan has as a strict fixed window, and warns where no rule takes
// the limit for such a subject, and where the subject's plan lacks it.
func TestCheckGrant(t *testing.T) {
	parse := func(text string) *limiter.Limiter {
		table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(text)})
		testkit.Must(t, err)
		return limiter.New(memory.New(memory.Options{}), table, limiter.Options{})
	}
	const rules = `
domain: api
plans:
  free: {api: {requests: 5, per: 1h}, bucket: {requests: 5, per: 1h, algorithm: token_bucket}, leased: {requests: 500, per: 1h, coordination: leased}, first: {requests: 5, per: 1h, align: first}, debt: {requests: 5, per: 1h, overdraw: true}, soft: {requests: 50, per: 1h, soft: 10%}, some: {unlimited: true}}
  pro: {api: {requests: 50, per: 1h}, some: {requests: 50, per: 1h}, unused: {requests: 50, per: 1h}}
  bare: {some: {requests: 5, per: 1h}}
default_plan: DEFAULT
descriptors:
  - {key: user, rate_limit: [{plan: api}, {plan: bucket}, {plan: leased}, {plan: first}, {plan: debt}, {plan: soft}, {plan: some}]}
  - {key: team, rate_limit: {plan: some, name: teams}}
`
	withDefault, denying := parse(strings.Replace(rules, "DEFAULT", "free", 1)), parse(strings.Replace(rules, "DEFAULT", "deny", 1))
	for _, tt := range []struct {
		l                    *limiter.Limiter
		subject, limit, plan string
		warning, err         string
	}{
		{withDefault, "user=1", "api", "", "", ""},
		{withDefault, "user=1", "api", "pro", "", ""},
		{withDefault, "user=1", "api", "bare", `the plan "bare" of the subject has no limit "api"`, ""},
		{withDefault, "user=1", "api", "gone", `the plan "gone" of the subject has no limit "api"`, ""},
		{withDefault, "user=1", "some", "", `the default plan of the subject has no limit "some"`, ""},
		{withDefault, "user=1", "some", "pro", "", ""},
		{withDefault, "user=1", "unused", "pro", `takes a limit "unused"`, ""},
		{withDefault, "user=1", "none", "", `takes a limit "none"`, ""},
		{withDefault, "org=1", "api", "", `from the plan of a "org"`, ""},
		{withDefault, "team=1", "some", "pro", "", ""},
		{denying, "user=1", "api", "", "the subject has no plan", ""},
		{withDefault, "user=1", "bucket", "", "", `no plan has a limit "bucket"`},
		{withDefault, "user=1", "leased", "", "", `no plan has a limit "leased"`},
		{withDefault, "user=1", "first", "", "", `no plan has a limit "first"`},
		{withDefault, "user=1", "debt", "", "", `no plan has a limit "debt"`},
		{withDefault, "user=1", "soft", "", "", `no plan has a limit "soft"`},
	} {
		warning, err := inforce.CheckGrant(tt.l, tt.subject, tt.limit, tt.plan)
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if !strings.Contains(warning, tt.warning) || tt.warning == "" && warning != "" || !strings.Contains(problem, tt.err) || tt.err == "" && problem != "" {
			t.Errorf("%s %s %s: warning %q, error %q", tt.subject, tt.limit, tt.plan, warning, problem)
		}
	}
}

// Records refuse the priority that limits give to a plan's own units, and set the one that limits expect.
func TestPriorities(t *testing.T) {
	if got, want := [2]uint8{index.PlanPriority, index.GrantPriority}, [2]uint8{limits.OwnPriority, limits.GrantPriority}; got != want {
		t.Errorf("priorities %v, want %v as in package limits", got, want)
	}
}
