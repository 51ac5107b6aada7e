package limiter

import (
	"fmt"
	"testing"
	"time"

	"stint"
)

// grantFor returns a grant that ends in an hour.
func grantFor(id string, units int64, priority uint8) Grant {
	return Grant{ID: id, Units: units, Priority: priority, Until: stint.At(time.Now().Add(time.Hour))}
}

// grant gives a subject grants of a limit.
func (f *fake) grant(subject, limit string, grants ...Grant) {
	k := f.subjects[subject]
	if k.grants == nil {
		k.grants = map[string][]Grant{}
	}
	k.grants[limit] = grants
	f.subjects[subject] = k
}

// A take has the grants of its subject and limit, in their order, if its rule takes the limit from plans as a
// strict fixed window; a look too, and so does a rule that keeps no history. Grants that have ended are left out.
func TestGrantsOfTakes(t *testing.T) {
	f := newFake()
	l := withRecords(t, `
domain: api
plans:
  free: {api: {requests: 5, per: 1h}, export: {requests: 2, per: 1h}, debt: {requests: 2, per: 1h, overdraw: true}}
  pro:
    api:
      - {requests: 50, per: 1h}
      - {requests: 20, per: 1m, burst: 20, algorithm: token_bucket, name: rush}
    export: {unlimited: true}
    debt: {requests: 2, per: 1h, overdraw: true}
default_plan: free
descriptors:
  - key: user
    rate_limit: [{plan: api}, {plan: debt, name: debts}, {requests: 100, per: 1h, name: plain}]
    descriptors: [{key: path, rate_limit: {plan: export, name: exports}}]
  - key: path
    descriptors: [{key: user, rate_limit: {plan: export, name: of-user}}]
`, f)
	ended := grantFor("ended", 1, 0)
	ended.Until = stint.At(time.Now().Add(-time.Second))
	for _, user := range []string{"a", "b"} {
		f.grant("user="+user, "api", grantFor("first", 1, 0), ended, grantFor("second", 1, 200))
		f.grant("user="+user, "debt", grantFor("first", 1, 0))
		f.grant("user="+user, "export", grantFor("third", 1, 200))
	}
	f.plan("user=b", "pro")
	f.override("user=c", "api/user#1#1", requests(7))
	f.grant("user=c", "api", grantFor("fourth", 1, 200))
	for _, tt := range []struct {
		pairs []string
		want  string
	}{
		{[]string{"user", "a"}, "api/user#1#1 [first second]; debts []; plain []; "},
		{[]string{"user", "b"}, "api/user#1#1 [first second]; api/user#1#rush []; debts []; plain []; "},
		{[]string{"user", "c"}, "api/user#1#1 [fourth]; debts []; plain []; "},
		{[]string{"user", "d"}, "api/user#1#1 []; debts []; plain []; "},
		{[]string{"user", "a", "path", "/"}, "exports []; "},
		{[]string{"path", "/", "user", "a"}, "of-user [third]; "},
	} {
		for cost := range uint32(2) {
			got, v := "", new(Verdict)
			if err := l.Decide(ctx, &Request{Domain: "api", Descriptors: []Descriptor{described(cost, tt.pairs...)}}, v); err != nil {
				t.Fatal(err)
			}
			for i := range v.Asked {
				ids := []string{}
				if take := v.Take(i); take != nil && take.Metered() {
					for _, g := range take.Handling.Meter.Grants {
						ids = append(ids, g.ID)
					}
				}
				got += fmt.Sprintf("%s %v; ", v.Asked[i].Rule.Name, ids)
			}
			if got != tt.want {
				t.Errorf("%v, cost %d: %s, want %s", tt.pairs, cost, got, tt.want)
			}
		}
	}
}

// A client uses its plan and then its grant. What is given back returns to the grant, and the numbers of the
// decision have what is left of both. A rollover is in the take of a look too.
func TestSpendGrants(t *testing.T) {
	f, decide := planned(t, `
domain: api
plans: {free: {api: {requests: 5, per: 1h, rollover: 3}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: api}}]
`)
	f.grant("user=a", "api", grantFor("order", 10, 200))
	for i, step := range []struct {
		cost      uint32
		allowed   bool
		remaining int64
	}{{0, true, 15}, {4, true, 11}, {3, true, 8}, {9, false, 8}, {8, true, 0}, {1, false, 0}, {0, true, 0}} {
		v := decide(step.cost, "user", "a")
		if v.Allowed != step.allowed || v.Remaining != step.remaining || v.Limit != 15 {
			t.Fatalf("step %d: %+v", i, v.Decision)
		}
		if m := v.Take(0).Handling.Meter; m == nil || m.Rollover != 3 {
			t.Fatalf("step %d: %+v", i, m)
		}
	}
	f.grant("user=a", "api", grantFor("order", 12, 200)) // it grows
	if v := decide(2, "user", "a"); !v.Allowed || v.Remaining != 0 || v.Limit != 17 {
		t.Fatalf("%+v", v.Decision)
	}
	if v := decide(5, "user", "b"); !v.Allowed || v.Limit != 5 {
		t.Fatalf("a client without grants: %+v", v.Decision)
	}
}

// The decision is undone in the grant that it was charged to.
func TestUndoGrants(t *testing.T) {
	f := newFake()
	l := withRecords(t, `
domain: api
plans: {free: {api: {requests: 5, per: 1h}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: api}}]
`, f)
	f.grant("user=a", "api", grantFor("order", 10, 0))
	var v Verdict
	look := func() int64 {
		t.Helper()
		var v Verdict
		if err := l.Decide(ctx, describe(0, "user", "a"), &v); err != nil {
			t.Fatal(err)
		}
		return v.Remaining
	}
	if err := l.Decide(ctx, describe(12, "user", "a"), &v); err != nil || !v.Allowed || look() != 3 {
		t.Fatalf("%+v, %v, then %d", v.Decision, err, look())
	}
	if err := l.Undo(ctx, &v); err != nil || look() != 15 {
		t.Fatalf("%v, then %d", err, look())
	}
	f.grant("user=a", "api") // what remains is the plan's own
	if got := look(); got != 5 {
		t.Errorf("%d remain", got)
	}
}
