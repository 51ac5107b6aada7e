package factsapi

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
)

const planRules = `
domain: api
plans:
  free: {api: {requests: 10, per: 1d}}
  pro: {api: [{requests: 100, unit: month, time_zone: UTC, anchor: subscription}, {requests: 1000, per: 1s, burst: 1000, algorithm: token_bucket, name: rush}]}
  house: {api: {unlimited: true}}
default_plan: free
descriptors:
  - {key: user, rate_limit: {plan: api, usage: 13, notify: [80%], name: calls}}
`

// plans are records that say which plan a subject has, and on which day its subscription began.
type plans map[string]plan

type plan struct {
	name string
	day  int
}

func (p plans) Mentions(string) bool { return true }

func (p plans) Lookup(key, value string) limiter.Known {
	if one, ok := p[key+"="+value]; ok {
		return one
	}
	return nil
}

func (plans) BannedNetwork(netip.Prefix) (until time.Time, banned bool) { return until, false }
func (plans) Misfit(*rule.Rule, error)                                  {}
func (plan) Ban() (until time.Time, banned bool)                        { return until, false }

func (plan) Override(string, time.Time) (o limiter.Override, overridden bool)       { return o, false }
func (plan) AppendGrants(to []limiter.Grant, _ string, _ time.Time) []limiter.Grant { return to }
func (p plan) Plan(time.Time) (name string, subscribed time.Time) {
	return p.name, time.Date(2025, 1, p.day, 12, 0, 0, 0, time.UTC)
}

// The use of a limit of a plan has the plan with which it was charged last, in rows, totals and events. The
// periods are those of the plan's limit, from the day of the subscription.
func TestUsageOfPlans(t *testing.T) {
	records := plans{"user=42": {"pro", 15}, "user=43": {"free", 1}, "user=44": {"pro", 20}, "user=45": {"house", 1}}
	s := serviceOf(t, planRules, records)
	for _, user := range []string{"42", "43", "44", "45", "46"} {
		s.take(8, "user", user)
	}
	s.take(72, "user", "42")
	h := NewUsage(s.options)
	for path, want := range map[string]string{
		"/v1/usage":                   "user=42 pro 80 02-15, user=44 pro 8 02-20, user=43 free 8 03-01, user=46 free 8 03-01",
		"/v1/usage?subject=user%3D42": "user=42 pro 80 02-15",
		"/v1/usage?subject=user%3D46": "user=46 free 8 03-01",
		"/v1/usage?subject=user%3D45": "",
	} {
		if got := s.rows(h, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	_, body, _ := s.ask(h, UsagePlansPath)
	for _, want := range []string{
		`{"plan":"pro","domain":"api","rule":"calls#1","limit":"api","start":"2026-02-15T00:00:00Z","end":"2026-03-15T00:00:00Z","subjects":1,"used":80,"open":true}`,
		`{"plan":"free","domain":"api","rule":"calls#1","limit":"api","start":"2026-03-01T00:00:00Z","end":"2026-03-02T00:00:00Z","subjects":2,"used":16,"open":true}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s\nwant %s", body, want)
		}
	}
	events, err := s.options.Store.(*memory.Store).Pending(t.Context(), 10)
	got := map[string]string{}
	for _, e := range events {
		got[e.Subject] = e.Plan + " " + e.Limit + " " + cellOf(e.Used) + " of " + cellOf(e.Of)
	}
	if len(got) != 3 || got["user=42"] != "pro api 80 of 100" || got["user=43"] != "free api 8 of 10" || got["user=46"] != "free api 8 of 10" || err != nil {
		t.Errorf("events %v, %v", got, err)
	}
	records["user=46"] = plan{"pro", 15} // what was used stays in its period
	s.take(1, "user", "46")
	s.now = s.now.AddDate(0, 1, 0)
	records["user=42"] = plan{"free", 15}
	s.take(5, "user", "42")
	if got, want := s.rows(h, "/v1/usage?subject=user%3D46"), "user=46 pro 1 02-15, user=46 free 8 03-01"; got != want {
		t.Errorf("a plan that changed: %q, want %q", got, want)
	}
	if got, want := s.rows(h, "/v1/usage?subject=user%3D42"), "user=42 free 5 04-01"; got != want { // 13 days before
		t.Errorf("a plan that changed: %q, want %q", got, want)
	}
	if got, want := s.rows(h, "/v1/usage?subject=user%3D44"), "user=44 pro 8 02-20"; got != want {
		t.Errorf("a period that ended: %q, want %q", got, want)
	}
}

// rows returns the rows of an answer: subject, plan, used and the day on which the period began.
func (s *service) rows(h http.Handler, path string) string {
	s.Helper()
	status, body, _ := s.ask(h, path)
	var answer usageAnswer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
		s.Fatalf("%s: %d %s, %v", path, status, body, err)
	}
	var all []string
	for _, r := range answer.Usage {
		all = append(all, strings.Join([]string{r.Subject, r.Plan, cellOf(r.Used), r.Start.Format("01-02")}, " "))
	}
	return strings.Join(all, ", ")
}

// Rows are the periods that the plan keeps, counted by its windows: in months from the 15th, what
// ended on 15 February is two periods old on 20 March.
func TestKeptPeriodsOfPlans(t *testing.T) {
	s := serviceOf(t, strings.Replace(planRules, "usage: 13", "usage: 1", 1), plans{"user=42": {"pro", 15}})
	s.now = time.Date(2026, 1, 20, 0, 0, 0, 0, time.UTC)
	s.take(1, "user", "42")
	s.now = s.now.AddDate(0, 1, 0)
	s.take(2, "user", "42")
	h := NewUsage(s.options)
	if got, want := s.rows(h, "/v1/usage"), "user=42 pro 1 01-15, user=42 pro 2 02-15"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.now = time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC)
	if got, want := s.rows(h, "/v1/usage"), "user=42 pro 2 02-15"; got != want {
		t.Errorf("a period later: %q, want %q", got, want)
	}
}

// A customer sees the limits of her plan, also of the default plan, which her record does not name.
func TestMeOfPlans(t *testing.T) {
	s := serviceOf(t, planRules, plans{"user=42": {"pro", 15}})
	s.take(8, "user", "42")
	s.take(3, "user", "43")
	h := s.meOf()
	for key, want := range map[string]meAnswer{"key42": {Plan: "pro"}, "key43": {Plan: "free"}} {
		_, body, _ := s.ask(h, MePath, "X-Api-Key", key)
		var got meAnswer
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Plan != want.Plan || len(got.Limits) == 0 {
			t.Fatalf("%s, %v", body, err)
		}
		first := got.Limits[0]
		last := first.History[len(first.History)-1]
		switch {
		case key == "key42" && (first.Used != 8 || *first.Left != 92 || last.Start.Day() != 15 || len(got.Limits) != 2):
			t.Errorf("%s", body)
		case key == "key43" && (first.Used != 3 || *first.Left != 7 || last.Start.Day() != 1 || len(got.Limits) != 1):
			t.Errorf("%s", body)
		}
	}
}
