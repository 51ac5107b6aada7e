package limiter

import (
	"testing"
	"time"

	"stint"
	"stint/limiter/line"
	"stint/rule"
	"stint/rule/denial"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const excessRules = `
domain: api
descriptors:
  - key: user
    rate_limit:
      - {name: slow, requests: 1, per: 1m, algorithm: token_bucket, excess: {mode: wait, max_wait: 30m}}
      - {name: window, requests: 2, per: 1h, excess: {mode: wait, max_wait: 1h, places: 7, places_per_key: 3}}
`

// observed counts the verdicts that an observer gets.
type observed struct{ allowed, denied int }

func (o *observed) Decided(v *Verdict, _ time.Duration, _ error) {
	if v.Allowed {
		o.allowed++
	} else {
		o.denied++
	}
}

// A request that may wait is no denial before Deny says so; one that is held is not asked for.
func TestPending(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(excessRules)})
	if err != nil {
		t.Fatal(err)
	}
	o := new(observed)
	now := stint.Instant(1767225600_000_000)
	l := New(memory.New(memory.Options{Clock: func() stint.Instant { return now }}), table, Options{Observer: o})
	var v Verdict
	mode := denial.Drop
	decide := func() {
		t.Helper()
		err := l.Decide(t.Context(), &Request{
			Domain: "api", Descriptors: []Descriptor{{Entries: []rule.Entry{{Key: "user", Value: "bob"}}, Cost: 1}},
			Hold: func(*Verdict) denial.Mode { return mode },
		}, &v)
		if err != nil {
			t.Fatal(err)
		}
	}
	decide()
	if v.Pending || !v.Allowed || o.allowed != 1 {
		t.Fatalf("%+v", v.Decision)
	}
	mode = denial.Wait
	decide()
	if e, _ := v.Excess(); !v.Pending || !v.Held || e != nil || v.Asked[1].Limit != stint.NoLimit {
		t.Errorf("held: %v, %v, %+v", v.Held, e, v.Asked[1].Decision)
	}
	if err := l.Undo(t.Context(), &v); err != nil || len(v.after.Takes) != 0 {
		t.Errorf("undoing what was not asked: %v, %d takes", err, len(v.after.Takes))
	}
	mode = denial.Drop
	decide()
	e, i := v.Excess()
	if !v.Pending || v.Held || i != 0 || e.MaxWait != 30*time.Minute || v.Reason() != ReasonRateLimited || o.denied != 0 {
		t.Errorf("pending %v by %d, %+v, %d denied", v.Pending, i, e, o.denied)
	}
	at := time.Unix(100, 0)
	want := line.Request{
		ID: v.Line(0), Cost: 1, RoomAt: at.Add(time.Minute),
		Settings: line.Settings{MaxWait: 30 * time.Minute, Places: 1000, PerKey: 100, Rate: line.Rate{Lot: 1, Every: time.Minute}},
	}
	if got := v.Place(0, at); got != want || got.ID.Rule != "slow" || got.ID == v.Line(1) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := v.Place(1, at).Settings; got != (line.Settings{MaxWait: time.Hour, Places: 7, PerKey: 3, Rate: line.Rate{Lot: 2, Every: time.Hour}}) {
		t.Errorf("%+v", got)
	}
	l.Deny(t.Context(), &v, 0, ReasonExcessFull, 5*time.Second)
	if v.Pending || v.Reason() != ReasonExcessFull || v.RetryAfter != 5*time.Second || o.denied != 1 {
		t.Errorf("%q, %+v, %d denied", v.Reason(), v.Decision, o.denied)
	}
	decide()
	l.Deny(t.Context(), &v, 0, ReasonQueued, 0)
	if v.Reason() != ReasonQueued || o.denied != 2 {
		t.Errorf("%q, %d denied", v.Reason(), o.denied)
	}
	mode = denial.Wait
	now += 3600_000_000
	decide() // the limits have room, and the request is held
	l.Deny(t.Context(), &v, 1, ReasonExcessFull, time.Second)
	if v.Allowed || v.Rule.Name != "window" || v.RetryAfter != time.Second || o.denied != 3 || o.allowed != 1 {
		t.Errorf("%+v, %d denied", v.Decision, o.denied)
	}
}

// A reload keeps the numbers of a rule that lets requests wait in any plan, and drops those of others.
func TestLinesOfPlans(t *testing.T) {
	const wait = ", excess: {mode: wait, max_wait: 1h}"
	rules := func(free, pro string) string {
		return `
domain: api
plans:
  free: {api: {requests: 1, per: 1h` + free + `}}
  pro: {api: {requests: 5, per: 1h` + pro + `}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: api, name: calls}}]
`
	}
	f := newFake()
	f.plan("user=bob", "pro")
	l := withRecords(t, rules("", wait), f)
	var v Verdict
	if err := l.Decide(ctx, describe(5, "user", "bob"), &v); err != nil {
		t.Fatal(err)
	}
	req := describe(1, "user", "bob")
	req.Hold = func(*Verdict) denial.Mode { return denial.Drop }
	if err := l.Decide(ctx, req, &v); err != nil || !v.Pending {
		t.Fatalf("%+v, %v", v.Decision, err)
	}
	at := now.Time()
	place := v.Place(0, at)
	p, err := l.Lines().Join(at, &place)
	if err != nil {
		t.Fatal(err)
	}
	p.Leave(at, line.Passed, 0)
	for _, step := range []struct {
		rules string
		kept  bool
	}{{rules("", wait), true}, {rules(wait, ""), true}, {rules("", ""), false}} {
		l.Swap(table(t, step.rules))
		if got := l.Lines().Stats(); (len(got) == 1 && got[0].Entered == 1) != step.kept {
			t.Errorf("%s: %+v, kept %v", step.rules, got, step.kept)
		}
	}
}
