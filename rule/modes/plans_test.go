package modes

import (
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/rule/rulefile"
)

// What may pass beyond the limit of a plan is said for each plan, where plans differ.
func TestPlans(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(`
domain: api
plans:
  free: {calls: {requests: 100, per: 1h}, all: {requests: 5, per: 1h}}
  pro: {calls: {requests: 10000, per: 1h}, all: {unlimited: true}}
default_plan: free
descriptors:
  - {key: lent, rate_limit: {plan: calls, coordination: leased}}
  - {key: late, rate_limit: {plan: calls, coordination: eventual, nodes: 3}}
  - {key: told, rate_limit: {plan: calls, coordination: gossip, nodes: 3}}
  - {key: away, rate_limit: {plan: calls, on_store_failure: local, local_share: 30%, nodes: 3}}
  - {key: strict, rate_limit: {plan: calls}}
  - {key: all, rate_limit: {plan: all}}
`)})
	testkit.Must(t, err)
	var got []string
	for _, f := range Leased(table) {
		got = append(got, f.Rule+" "+f.Text)
	}
	for _, f := range Eventual(table, time.Second) {
		got = append(got, f.Rule+" "+f.Text)
	}
	for _, f := range Gossip(table, time.Second) {
		got = append(got, f.Rule+" "+f.Text)
	}
	for _, f := range StoreAway(table) {
		got = append(got, f.Rule+" "+f.Text)
	}
	for _, f := range Strict(table) {
		got = append(got, f.Rule+" "+f.Text)
	}
	want := [][2]string{
		{"api/lent plan free: leased", "at most 100 of each key"},
		{"api/lent plan pro: leased", "at most 10000 of each key"},
		{"api/late plan free: eventual", "= 400 pass"},
		{"api/late plan pro: eventual", "= 40000 pass"},
		{"api/told plan free: gossip", "= 400 pass"},
		{"api/told plan pro: gossip", "= 40000 pass"},
		{"api/away plan free: while", "at most 30 in each 1h"},
		{"api/away plan pro: while", "at most 3000 in each 1h"},
		{"api/away plan free: strict", "at most 30"},
		{"api/away plan pro: strict", "at most 3000"},
		{"api/strict strict", ""},
		{"api/all plan free: strict", ""},
	}
	for i, line := range got {
		if i >= len(want) || !strings.HasPrefix(line, want[i][0]) || !strings.Contains(line, want[i][1]) {
			t.Errorf("finding %d: %s", i, line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d findings, want %d", len(got), len(want))
	}
}

// What the store may lose of a durable limit of a plan is said once for each rule, although its month can begin on any day.
func TestDurablePlans(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "a.yaml", Data: []byte(`
domain: api
plans:
  free: {calls: {requests: 5, unit: month, time_zone: Europe/Berlin, anchor: subscription, durable: true}, all: {requests: 7, per: 1h}}
  pro: {calls: {requests: 50, unit: month, time_zone: Europe/Berlin, anchor: subscription, durable: true}, all: {requests: 70, per: 1h, durable: true}}
default_plan: free
descriptors:
  - {key: user, rate_limit: {plan: calls}}
  - {key: some, rate_limit: {plan: all}}
  - {key: none, rate_limit: {requests: 1, per: 1h}}
`)})
	testkit.Must(t, err)
	want := [][2]string{
		{"api/user plan free: durable", "at most 5 of each key, at 5 per month"},
		{"api/user plan pro: durable", "at most 50 of each key, at 50 per month"},
		{"api/some plan pro: durable", "at most 70 of each key, at 70 per 1h"},
	}
	got := Durable(table)
	for i, f := range got {
		if line := f.Rule + " " + f.Text; i >= len(want) || !strings.HasPrefix(line, want[i][0]) || !strings.Contains(line, want[i][1]) {
			t.Errorf("finding %d: %s", i, line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d findings, want %d", len(got), len(want))
	}
}
