package rulefile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/rule"
	"stint/rule/rulefile"
)

const plans = `
plans:
  free: {api: {requests: 100, per: 1d}}
  pro:
    api:
      - {requests: 10000, unit: month, time_zone: Europe/Berlin, anchor: subscription}
      - {requests: 50, per: 1s, burst: 200, algorithm: token_bucket, name: rush}
      - {requests: 9, per: 1m, algorithm: sliding_log}
  empty: {other: {requests: 1, per: 1s}}
default_plan: free
`

// parsePlans returns the table of a file with rules, a file with plans, and plans of records.
func parsePlans(t *testing.T, rules, plans string, stored ...string) (*rule.Table, error) {
	t.Helper()
	sources := []rulefile.Source{{Name: "rules.yaml", Data: []byte("domain: api\n" + rules)}, {Name: "plans.yaml", Data: []byte(plans)}}
	for _, text := range stored {
		sources = append(sources, rulefile.Source{Name: "a record", Data: []byte(text), Stored: true})
	}
	return rulefile.Parse(sources...)
}

// A client has the limits of its plan, whose state has the same key in every plan.
func TestPlanned(t *testing.T) {
	table, err := parsePlans(t, "descriptors: [{key: user, rate_limit: [{plan: api}, {requests: 3, per: 1s}]}]", plans)
	if err != nil {
		t.Fatal(err)
	}
	entries := []rule.Entry{{Key: "user", Value: "a"}}
	rules := table.Domain("api").Match(entries)
	var names, keys []string
	for _, r := range rules {
		names, keys = append(names, r.Name), append(keys, string(r.AppendKey(nil, entries)))
	}
	if got := strings.Join(names, " "); got != "api/user#1#1 api/user#1#3 api/user#1#rush api/user#2" {
		t.Fatal(got)
	}
	if got := strings.Join(keys, " "); got != "rapi/user|1:a rapi/user#0#3|1:a rapi/user#0@rush|1:a rapi/user#1|1:a" {
		t.Error(got)
	}
	for plan, want := range map[string]string{
		"": "100 per 24h0m0s, none, none", "free": "100 per 24h0m0s, none, none", "pro": "10000 month 0, 9 per 1m0s, 50 per 1s",
		"empty": "denied, denied, denied", "gone": "denied, denied, denied",
	} {
		var got []string
		for i, r := range rules[:3] {
			of, ok := r.Plan.For(plan, time.Time{})
			switch {
			case !ok:
				got = append(got, "denied")
			case of == nil:
				got = append(got, "none")
			default:
				got = append(got, numbers(of.Limit))
				if key := string(of.AppendKey(nil, entries)); key != keys[i] || of.Name != r.Name || of.Index != r.Index || of.Original() != r {
					t.Errorf("plan %s: the rule %s has the key %s", plan, of.Name, key)
				}
			}
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("plan %q: %s, want %s", plan, got, want)
		}
	}
	// 23:30 UTC on the 30th is the 31st in Berlin.
	of, _ := rules[0].Plan.For("pro", time.Date(2025, 1, 30, 23, 30, 0, 0, time.UTC))
	if got := numbers(of.Limit); got != "10000 month 31" || string(of.AppendKey(nil, entries)) != keys[0] {
		t.Error(got)
	}
	if terms := table.Terms(); len(terms) != 4 {
		t.Errorf("%d terms", len(terms))
	}
	all, byDefault := table.Plans()
	if byDefault != "free" || len(all) != 3 || all[2].Name != "pro" || all[2].File != "plans.yaml" || all[2].Line != 4 {
		t.Errorf("%v %+v", byDefault, all)
	}
}

func numbers(l *stint.Limit) string {
	s := l.Spec()
	if s.Calendar != stint.NoPeriod {
		return strings.Join([]string{fmt.Sprint(s.Requests), s.Calendar.String(), fmt.Sprint(s.Anchor)}, " ")
	}
	return fmt.Sprint(s.Requests) + " per " + s.Per.String()
}

// With default_plan: deny a client without a plan is denied. Plans of records are as those of files, but
// none may have the name of a file's plan.
func TestPlansOfRecords(t *testing.T) {
	rules := "descriptors: [{key: user, rate_limit: {plan: api, on_store_failure: deny}}]"
	deny := strings.Replace(plans, "default_plan: free", "default_plan: deny", 1)
	table, err := parsePlans(t, rules, deny, `{"plans": {"gold": {"api": {"requests": 7, "per": "1h"}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	r := table.Rules()[0]
	if _, ok := r.Plan.For("", time.Time{}); ok {
		t.Error("a client without a plan is not denied")
	}
	if gold, ok := r.Plan.For("gold", time.Time{}); !ok || numbers(gold.Limit) != "7 per 1h0m0s" || gold.OnStoreFailure != rule.Deny {
		t.Errorf("gold: %v", gold)
	}
	for text, want := range map[string]string{
		`{"plans": {"pro": {"api": {"requests": 7, "per": "1h"}}}}`:                              "plan pro stands twice, first in plans.yaml:4",
		`{"plans": {"gold": {"api": {"requests": 7, "per": "1h", "algorithm": "sliding_log"}}}}`: "plan gold: api 1 is a sliding_log, and in plan free it is a fixed_window",
		`{"plans": {"gold": {"api": {"requests": 7}}}}`:                                          "without a period",
	} {
		if _, err := parsePlans(t, rules, plans, text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a record:1") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := parsePlans(t, rules, plans+"\nplans2: 1\n"); err == nil || !strings.Contains(err.Error(), "plans.yaml") {
		t.Errorf("an unknown word beside plans: %v", err)
	}
	if _, err := parsePlans(t, rules, strings.Replace(plans, "default_plan: free", "default_plan: fre", 1)); err == nil || !strings.Contains(err.Error(), `did you mean "free"`) {
		t.Errorf("an unknown default plan: %v", err)
	}
}

// Each limit of a plan keeps and announces what it says itself, also where the limit of another plan at its place says
// something else.
func TestUsageOfPlans(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(`
domain: api
plans:
  free: {calls: {requests: 10, per: 1h}, exports: {requests: 10, per: 1h, usage: 2, notify: 50%}}
  pro: {calls: {requests: 10, unit: month, time_zone: UTC, anchor: subscription, usage: 13, notify: [80%, 100%]}, exports: {requests: 10, per: 1h, usage: 5}}
default_plan: free
descriptors:
  - {key: user, rate_limit: {plan: calls}}
  - {key: team, rate_limit: {plan: exports}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	terms := map[*stint.Terms]bool{}
	for _, r := range table.All() {
		terms[r.Terms] = true
		usage := rule.Usage{}
		if r.Usage != nil {
			usage = *r.Usage
		}
		if r.Terms.Usage != usage.Periods || !slices.Equal(r.Terms.Notify, usage.Notify) {
			t.Errorf("plan %s, %s: %d periods and events at %v, want %v", r.OfPlan, r.Plan.Limit, r.Terms.Usage, r.Terms.Notify, &usage)
		}
	}
	if len(terms) != 4 { // all days of a month share theirs
		t.Errorf("%d terms, want 4", len(terms))
	}
}
