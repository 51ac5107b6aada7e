package inforce_test

import (
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/records/inforce"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// planned returns a table whose rule takes its limit from plans.
func planned(t testing.TB) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(`
domain: api
plans:
  free: {api: {requests: 5, per: 1h}}
  pro: {api: {requests: 50, unit: month, time_zone: Europe/Berlin, anchor: subscription}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: api}}]
`)})
	testkit.Must(t, err)
	return table
}

// A client has the plan of its record until that ends, to the second, and its months begin on the day
// of its subscription. What a ban or an override says stands beside it.
func TestPlan(t *testing.T) {
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	subscribed := time.Date(2025, 1, 30, 23, 30, 0, 0, time.UTC) // the 31st in Berlin
	file := samples.File(t,
		records.Subject{Name: "user=trial", Kind: records.User, Plan: "pro", PlanUntil: end, Subscribed: subscribed},
		records.Subject{Name: "user=plain", Kind: records.User},
	)
	known := recordsOf(t, file)
	for subject, want := range map[string]time.Time{"user=trial": subscribed, "user=plain": {}, "user=other": {}} {
		if got := known.Subscribed(subject); !got.Equal(want) {
			t.Errorf("%s subscribed at %v, want %v", subject, got, want)
		}
	}
	l := limiter.New(memory.New(memory.Options{}), planned(t), limiter.Options{Records: known})
	for _, step := range []struct {
		user   string
		at     time.Time
		limit  int64
		anchor uint8
	}{
		{"trial", end.Add(-time.Second), 50, 31},
		{"trial", end, 5, 0},
		{"plain", end, 5, 0},
		{"other", end, 5, 0},
	} {
		req := request(0, "user", step.user)
		req.At = stint.At(step.at)
		var v limiter.Verdict
		testkit.Must(t, l.Decide(ctx, req, &v))
		if v.Limit != step.limit || v.Rule.Limit.Spec().Anchor != step.anchor {
			t.Errorf("%s at %v: limit %d from day %d, want %d from %d", step.user, step.at, v.Limit, v.Rule.Limit.Spec().Anchor, step.limit, step.anchor)
		}
	}
}

// A decision about a client with a plan allocates nothing.
func TestPlanAllocatesNothing(t *testing.T) {
	if testkit.Race {
		t.Log("the race detector allocates")
		return
	}
	file := samples.File(t, records.Subject{Name: "user=a", Kind: records.User, Plan: "pro"})
	l := limiter.New(memory.New(memory.Options{}), planned(t), limiter.Options{Records: recordsOf(t, file)})
	var v limiter.Verdict
	req := request(1, "user", "a")
	if n := testing.AllocsPerRun(1000, func() { _ = l.Decide(ctx, req, &v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// recordsOf returns the records of a file for a limiter.
func recordsOf(t testing.TB, file *records.File) *inforce.Records {
	return inforce.NewRecords(file, inforce.RecordsOptions{OnError: func(err error) { t.Error(err) }})
}

// A next plan is in force from its moment on, to the second, also from the default plan. It ends like
// any other.
func TestNextPlan(t *testing.T) {
	moment := time.Now().Add(time.Hour).Truncate(time.Second)
	subject := records.Subject{Name: "user=a", Kind: records.User, PlanUntil: moment.Add(time.Hour)}
	subject.Next.Plan, subject.Next.From = "pro", moment
	file := samples.File(t, subject)
	l := limiter.New(memory.New(memory.Options{}), planned(t), limiter.Options{Records: recordsOf(t, file)})
	for _, step := range []struct {
		at    time.Time
		limit int64
	}{
		{moment.Add(-time.Second), 5},
		{moment, 50},
		{moment.Add(time.Hour - time.Second), 50},
		{moment.Add(time.Hour), 5},
	} {
		req := request(1, "user", "a")
		req.At = stint.At(step.at)
		var v limiter.Verdict
		testkit.Must(t, l.Decide(ctx, req, &v))
		if v.Limit != step.limit {
			t.Errorf("at %v: limit %d, want %d", step.at, v.Limit, step.limit)
		}
	}
}
