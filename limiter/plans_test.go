package limiter

import (
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/rule"
)

const planRules = `
domain: api
plans:
  free: {api: {requests: 5, per: 1h}, export: {requests: 2, per: 1h}}
  pro:
    api:
      - {requests: 50, per: 1h}
      - {requests: 20, per: 1m, burst: 20, algorithm: token_bucket, name: rush}
    export: {unlimited: true}
  bare: {other: {requests: 1, per: 1s}}
default_plan: free
descriptors:
  - key: user
    rate_limit: {plan: api}
    descriptors:
      - key: path
        value: /export
        rate_limit: {plan: export, name: exports}
  - key: path
    descriptors: [{key: user, rate_limit: {plan: export}}]
  - key: watched
    rate_limit: {plan: export}
    shadow_mode: true
`

// planned returns a limiter with rules and records, and a function that takes units of a user.
func planned(t *testing.T, yaml string) (f *fake, decide func(cost uint32, pairs ...string) *Verdict) {
	t.Helper()
	f = newFake()
	l := withRecords(t, yaml, f)
	return f, func(cost uint32, pairs ...string) *Verdict {
		t.Helper()
		v := new(Verdict)
		if err := l.Decide(ctx, describe(cost, pairs...), v); err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A client has the limits of its plan. When its plan changes, and changes back, it keeps what it used.
func TestPlans(t *testing.T) {
	f, decide := planned(t, planRules)
	check := func(v *Verdict, allowed bool, remaining int64, plan string, asked int) {
		t.Helper()
		if v.Allowed != allowed || v.Remaining != remaining || len(v.Asked) != asked || v.Rule == nil || v.Rule.OfPlan != plan {
			t.Fatalf("%+v, rule %v, %d limits; want allowed %v, %d remaining, %d limits of %s", v.Decision, v.Rule, len(v.Asked), allowed, remaining, asked, plan)
		}
	}
	check(decide(3, "user", "a"), true, 2, "free", 1)
	f.plan("user=a", "pro")
	check(decide(9, "user", "a"), true, 11, "pro", 2) // of the burst; 38 are left of the hour
	f.plan("user=a", "free")
	v := decide(1, "user", "a")
	check(v, false, 0, "free", 1) // 12 are used
	if v.Reason() != ReasonQuota || v.Rule.Name != "api/user#1" {
		t.Errorf("%s by %s", v.Reason(), v.Rule.Name)
	}
	f.plan("user=a", "pro")
	check(decide(12, "user", "a"), false, 11, "pro", 2) // the burst kept its use as well
	check(decide(11, "user", "a"), true, 0, "pro", 2)
	check(decide(5, "user", "b"), true, 0, "free", 1)
}

// The plan is that of the last entry. An unlimited plan takes nothing. A plan without limits for a rule
// denies, whether it is known or not, but neither a look nor a rule in shadow mode.
func TestPlansDeny(t *testing.T) {
	f, decide := planned(t, planRules)
	f.plan("user=a", "pro")
	f.plan("user=bare", "bare")
	f.plan("user=gone", "gone")
	f.plan("watched=w", "bare")
	l := withRecords(t, planRules, f)
	nested := func(key, value, below, last string) *Verdict {
		v := new(Verdict)
		d := Descriptor{Cost: 9, Entries: []rule.Entry{{Key: key, Value: value}, {Key: below, Value: last}}}
		if err := l.Decide(ctx, &Request{Domain: "api", Descriptors: []Descriptor{d}}, v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := nested("path", "x", "user", "a"); !v.Allowed || v.Unmatched || len(v.call.Takes) != 0 {
		t.Errorf("unlimited: %+v", v.Decision)
	}
	if v := nested("user", "a", "path", "/export"); v.Allowed || v.Rule.OfPlan != "free" { // the subject is path=/export
		t.Errorf("the plan of another entry: %+v", v.Decision)
	}
	for _, user := range []string{"bare", "gone"} {
		if v := decide(1, "user", user); v.Allowed || v.Reason() != ReasonNoPlan || v.Listed.Status != 403 || v.RetryAfter != stint.Never || len(v.Asked) != 0 {
			t.Errorf("%s: %+v, %s", user, v.Decision, v.Reason())
		}
		if v := decide(0, "user", user); !v.Allowed || v.Unmatched {
			t.Errorf("a look of %s: %+v", user, v.Decision)
		}
	}
	if v := decide(1, "watched", "w"); !v.Allowed || v.Unmatched {
		t.Errorf("in shadow mode: %+v", v.Decision)
	}
	f.override("user=bare", "api/user#1", requests(7))
	if v := decide(1, "user", "bare"); !v.Allowed || v.Remaining != 6 {
		t.Errorf("an override without a plan: %+v", v.Decision)
	}
	f.override("user=a", "api/user#1", requests(1))
	if v := decide(2, "user", "a"); v.Allowed || v.Rule.OfPlan != "pro" || v.Rule.Original().Name != "api/user#1" || v.Rule.Original().Base != nil {
		t.Errorf("an override of a plan: %+v", v.Decision)
	}
	f.ban("user=gone", time.Time{})
	if v := decide(1, "user", "gone"); v.Reason() != ReasonBanned {
		t.Errorf("a ban decides before the plan: %s", v.Reason())
	}
}

// default_plan: deny denies clients without a plan, and all where there are no records.
func TestNoDefaultPlan(t *testing.T) {
	yaml := "domain: api\nplans: {pro: {api: {requests: 2, per: 1h}}}\ndefault_plan: deny\ndescriptors: [{key: user, rate_limit: {plan: api}}]"
	f, decide := planned(t, yaml)
	f.plan("user=a", "pro")
	if v := decide(1, "user", "a"); !v.Allowed {
		t.Errorf("%+v", v.Decision)
	}
	if v := decide(1, "user", "b"); v.Allowed || v.Reason() != ReasonNoPlan {
		t.Errorf("%+v", v.Decision)
	}
	at := now
	l := New(memoryAt(&at), table(t, yaml), Options{})
	var v Verdict
	if err := l.Decide(ctx, describe(1, "user", "a"), &v); err != nil || v.Allowed || v.Reason() != ReasonNoPlan {
		t.Errorf("%+v, %v", v.Decision, err)
	}
}

// A month with anchor: subscription begins on the day of the client's subscription.
func TestPlanAnchor(t *testing.T) {
	f, decide := planned(t, `
domain: api
plans: {pro: {api: {requests: 10, unit: month, time_zone: Europe/Berlin, anchor: subscription}}}
default_plan: pro
descriptors: [{key: user, rate_limit: {plan: api}}]
`)
	f.subjects["user=a"] = fakeKnown{subscribed: time.Date(2024, 5, 31, 12, 0, 0, 0, time.UTC)}
	at := now.Time()
	for user, day := range map[string]int{"a": 31, "b": 1} {
		v := decide(1, "user", user)
		ends := at.Add(v.ResetAfter).In(v.Rule.Limit.Spec().Zone)
		last := time.Date(ends.Year(), ends.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
		if ends.Day() != min(day, last) || ends.Hour() != 0 || !v.Allowed {
			t.Errorf("%s: the month ends at %v", user, ends)
		}
	}
}

// User, team and organisation are decided in one call, each by its own plan. Every denial names the
// level; the parts of a team may be more than the team has; a user who moves keeps its count.
func TestPlansOfThreeLevels(t *testing.T) {
	f, _ := planned(t, planRules)
	l := withRecords(t, `
domain: api
plans:
  person: {calls: {requests: 5, per: 1h}}
  team: {calls: {requests: 10, per: 1h}}
  company: {calls: {requests: 50, per: 1h}}
default_plan: person
descriptors:
  - {key: user, rate_limit: {plan: calls}}
  - {key: team, rate_limit: {plan: calls}}
  - {key: org, rate_limit: {plan: calls}}
`, f)
	f.plan("org=acme", "company")
	for n := range 7 {
		f.plan(fmt.Sprint("team=", n), "team")
	}
	one := func(user, team string) (*Verdict, string) {
		t.Helper()
		req := &Request{Domain: "api"}
		for _, e := range []rule.Entry{{Key: "user", Value: user}, {Key: "team", Value: team}, {Key: "org", Value: "acme"}} {
			req.Descriptors = append(req.Descriptors, Descriptor{Cost: 1, Entries: []rule.Entry{e}})
		}
		v := new(Verdict)
		if err := l.Decide(ctx, req, v); err != nil || len(v.call.Takes) != 3 {
			t.Fatalf("%d takes, %v", len(v.call.Takes), err)
		}
		if v.Allowed {
			return v, ""
		}
		return v, v.Rule.Name
	}
	expect := func(user, team, denied string) *Verdict {
		t.Helper()
		v, by := one(user, team)
		if by != denied {
			t.Fatalf("user %s, team %s: denied by %q, want %q", user, team, by, denied)
		}
		return v
	}
	for range 5 {
		expect("u1", "0", "")
		expect("u2", "0", "")
	}
	expect("u1", "0", "api/user")
	v := expect("u3", "0", "api/team") // three users may take 15, the team 10
	if v.Asked[0].Remaining != 5 || v.Asked[2].Remaining != 40 {
		t.Errorf("a denial charged others: %+v", v.Asked)
	}
	expect("u1", "1", "api/user") // in another team it has used its five all the same
	expect("u3", "1", "")
	left := 39
	for n := 0; left > 0; n++ {
		if _, by := one(fmt.Sprint("more", n/5), fmt.Sprint(2+n/10%5)); by == "" {
			left--
		} else if n > 100 {
			t.Fatalf("%d are left, and %s denies", left, by)
		}
	}
	v = expect("last", "1", "api/org")
	if v.Asked[0].Remaining != 5 || v.Asked[1].Remaining != 9 {
		t.Errorf("a denial of the organisation charged others: %+v", v.Asked)
	}
}
