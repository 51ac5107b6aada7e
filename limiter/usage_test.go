package limiter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// A request counts in the history of each rule with usage, for the rule's last entry. A peek, a denied
// request and what is given back do not. A soft limit has its percentages of the limit that people see.
func TestUsage(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(`
domain: api
descriptors:
  - key: tenant
    value: t1
    descriptors:
      - key: user
        rate_limit:
          - {requests: 10, per: 1h, usage: 2, notify: [50%], soft: 100%, name: soft}
          - {requests: 1000, per: 1h, name: none}
`)})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{})
	l := New(store, table, Options{})
	decide := func(cost uint32, op stint.Op) *Verdict {
		t.Helper()
		v := new(Verdict)
		req := &Request{Domain: "api", Op: op, Descriptors: []Descriptor{{Cost: cost, Entries: []rule.Entry{{Key: "tenant", Value: "t1"}, {Key: "user", Value: "42"}}}}}
		if err := l.Decide(context.Background(), req, v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	decide(0, stint.Ask)
	v := decide(7, stint.Ask)
	decide(50, stint.Ask)
	decide(2, stint.Refund)
	take := v.Take(0)
	if !take.Metered() || v.Take(1).Metered() {
		t.Fatalf("metered %v and %v", take.Metered(), v.Take(1).Metered())
	}
	u, err := store.Usage(context.Background(), take)
	if err != nil || len(u.History) != 1 || u.History[0].Used != 5 || u.Subject != "user=42" || u.Domain != "api" || u.Rule != "soft" {
		t.Errorf("%+v, %v", u, err)
	}
	events, err := store.Pending(context.Background(), 10)
	if err != nil || len(events) != 1 || events[0].Of != 10 || events[0].Used != 7 || events[0].End.Sub(events[0].Start) != time.Hour {
		t.Errorf("%+v, %v", events, err)
	}
}

// A request whose answer is not counted gives back what it used, also in the history.
func TestUsageOfAnswers(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(`
domain: api
descriptors: [{key: user, rate_limit: {requests: 10, per: 1h, usage: 1, count: responses, statuses: [5xx]}}]
`)})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{})
	l := New(store, table, Options{})
	v := new(Verdict)
	for _, status := range []int{200, 500, 404, 503} {
		req := &Request{Domain: "api", Answers: true, Descriptors: []Descriptor{{Cost: 2, Entries: []rule.Entry{{Key: "user", Value: "42"}}}}}
		if err := l.Decide(context.Background(), req, v); err != nil {
			t.Fatal(err)
		}
		if err := l.Settle(context.Background(), v, status); err != nil {
			t.Fatal(err)
		}
	}
	take := UsageTake(table.Rules()[0], []rule.Entry{{Key: "user", Value: "42"}}, nil)
	u, err := store.Usage(context.Background(), &take)
	if err != nil || len(u.History) != 1 || u.History[0].Used != 4 {
		t.Errorf("%+v, %v", u, err)
	}
}

// A take of a limit of a plan names the limit and the client's plan in the history, also where an
// override gives it numbers that its plan has not.
func TestUsageOfPlans(t *testing.T) {
	f, decide := planned(t, `
domain: api
plans: {free: {api: {requests: 10, per: 1h}}, pro: {api: {requests: 20, per: 1h}}, bare: {other: {requests: 1, per: 1h}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: api, usage: 1}}]
`)
	f.plan("user=a", "pro")
	f.plan("user=b", "bare")
	f.override("user=b", "api/user", requests(7))
	for user, want := range map[string]string{"a": "pro api 20", "b": "bare api 7", "c": "free api 10"} {
		v := decide(1, "user", user)
		m := v.Take(0).Handling.Meter
		if m == nil || fmt.Sprint(m.Plan, " ", m.Limit, " ", m.Of) != want {
			t.Errorf("%s: %+v, want %s", user, m, want)
		}
	}
}
