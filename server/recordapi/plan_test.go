package recordapi

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/records"
)

// A change from the next period keeps the plan until the end of its period, or of a trial that ends
// earlier. A later change takes the place of one that waits, and follows on the plan in force.
func TestPlanFromNextPeriod(t *testing.T) {
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, f.Close()) }()
	end := time.Now().UTC().Truncate(time.Second).Add(72 * time.Hour)
	asked := ""
	api := New(f, Options{
		Plan: func(name string) bool { return name != "gone" },
		PeriodEnd: func(plan string, subscribed, now time.Time) (time.Time, bool) {
			asked = fmt.Sprint(plan, " ", subscribed.Day())
			return end, plan != "bare"
		},
	})
	at := end.Format(time.RFC3339)
	until, soon := end.Add(time.Hour).Format(time.RFC3339), end.Add(-time.Hour).Format(time.RFC3339)
	for i, step := range []struct {
		body   string
		status int
		want   string
		asked  string // of which plan and day the end was asked
	}{
		{`{"kind":"user","plan":"pro","from":"next_period"}`, 201, `{"subject":"user=1","kind":"user","next_plan":"pro","next_from":"` + at + `","revision":1,...`, " 1"},
		{`{"kind":"user","plan":"gold","from":"next_period","subscribed":"2026-01-07T00:00:00Z"}`, 200, `{"subject":"user=1","kind":"user","subscribed":"2026-01-07T00:00:00Z","next_plan":"gold","next_from":"` + at + `","revision":2,...`, " 7"},
		{`{"kind":"user","plan":"pro"}`, 200, `{"subject":"user=1","kind":"user","plan":"pro","revision":3,...`, ""},
		{`{"kind":"user","plan":"free","from":"next_period","plan_until":"` + until + `"}`, 200, `{"subject":"user=1","kind":"user","plan":"pro","plan_until":"` + until + `","next_plan":"free","next_from":"` + at + `",...`, "pro 1"},
		{`{"kind":"user","plan":"free","from":"next_period","plan_until":"` + soon + `"}`, 400, `{"error":{"code":"bad_request","message":"plan_until: the next plan ends before it is in force; ...`, "pro 1"},
		{`{"kind":"user","plan":"","from":"next_period"}`, 200, `{"subject":"user=1","kind":"user","plan":"pro","next_from":"` + at + `",...`, "pro 1"},
		{`{"kind":"user","plan":"pro","plan_until":"` + soon + `"}`, 200, `{"subject":"user=1",...`, ""},
		{`{"kind":"user","plan":"gold","from":"next_period"}`, 200, `{"subject":"user=1","kind":"user","plan":"pro","next_plan":"gold","next_from":"` + soon + `",...`, "pro 1"}, // its trial ends
		{`{"kind":"user","plan":"gone","from":"next_period"}`, 200, `{"subject":"user=1","kind":"user","plan":"pro","next_plan":"gone",...`, "pro 1"},
		{`{"kind":"user","plan":"bare"}`, 200, `{"subject":"user=1",...`, ""},
		{`{"kind":"user","plan":"pro","from":"next_period"}`, 400, `{"error":{"code":"bad_request","message":"from: the plan \"bare\" has no fixed window whose period could end; ...`, "bare 1"},
		{`{"kind":"user","plan":"pro","from":"tomorrow"}`, 400, `{"error":{"code":"bad_request","message":"from: \"tomorrow\" is unknown; write next_period, ...`, ""},
		{`{"kind":"user","plan":"pro","from":"next_period","next_plan":"x","next_from":"1h"}`, 400, `{"error":{"code":"bad_request","message":"from: there is also next_from; ...`, ""},
		{`{"kind":"user","plan":"pro","next_plan":"free"}`, 400, `{"error":{"code":"bad_request","message":"next_from: missing; ...`, ""},
	} {
		asked = ""
		expect(t, fmt.Sprint("step ", i), call(api, "PUT", "/v1/subjects/user=1", step.body), step.status, step.want)
		if asked != step.asked {
			t.Errorf("step %d: asked for the end of %q, want %q", i, asked, step.asked)
		}
	}
}

// An answer shows a next plan that is in force as the plan, before any change settles it.
func TestShowNextPlan(t *testing.T) {
	api, f, _ := open(t)
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	subject := records.Subject{Name: "user=1", Kind: records.User, Plan: "free"}
	subject.Next.Plan, subject.Next.From = "pro", soon
	samples.Put(t, f, subject)
	expect(t, "before", call(api, "GET", "/v1/subjects/user=1", ""), 200, `{"subject":"user=1","kind":"user","plan":"free","next_plan":"pro",...`)
	e, _, err := f.Get(subject.ID())
	testkit.Must(t, err)
	if s := show(e, soon); s.Plan != "pro" || s.NextPlan != "" || s.NextFrom != "" {
		t.Errorf("%+v", s)
	}
}

// A change from the next period follows on the plan that the caller has seen: if another changed that
// meanwhile, the change is refused.
func TestPlanChangedMeanwhile(t *testing.T) {
	f, err := records.Open(filepath.Join(t.TempDir(), "records.db"), records.Options{})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, f.Close()) }()
	subject := records.Subject{Name: "user=1", Kind: records.User, Plan: "free"}
	api := New(f, Options{PeriodEnd: func(_ string, _, now time.Time) (time.Time, bool) {
		subject.Plan += "+"
		samples.Put(t, f, subject)
		return now.Add(time.Hour), true
	}})
	for step := range 2 { // the record is new, or there
		body := `{"kind":"user","plan":"pro","from":"next_period"}`
		if answer := call(api, "PUT", "/v1/subjects/user=1", body); answer.Code != 409 && answer.Code != 412 {
			t.Errorf("step %d: %d %s", step, answer.Code, answer.Body)
		}
	}
}
