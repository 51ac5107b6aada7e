package index

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A grant with a fault names the field that has it.
func TestCheckGrant(t *testing.T) {
	later := friday.Add(time.Hour)
	grant := func(change func(*Grant)) Grant {
		g := Grant{Subject: "user=42", Name: "order-7", Limit: "api", Units: 1000, Priority: GrantPriority, Until: later}
		change(&g)
		return g
	}
	for _, tt := range []struct {
		g              Grant
		field, problem string
	}{
		{grant(func(*Grant) {}), "", ""},
		{grant(func(g *Grant) { g.Priority, g.From, g.Units = 0, friday.Add(-time.Hour), 1<<32-1 }), "", ""},
		{grant(func(g *Grant) { g.Subject = "42" }), "subject", "is no entry"},
		{grant(func(g *Grant) { g.Subject = "user=a*" }), "subject", "star"},
		{grant(func(g *Grant) { g.Name = "" }), "id", "missing"},
		{grant(func(g *Grant) { g.Name = "a/b" }), "id", "is not an ID"},
		{grant(func(g *Grant) { g.Name = strings.Repeat("x", 65) }), "id", "is not an ID"},
		{grant(func(g *Grant) { g.Limit = "" }), "limit", "missing"},
		{grant(func(g *Grant) { g.Limit = "a\n" }), "limit", "control"},
		{grant(func(g *Grant) { g.Units = 0 }), "units", "0 units grant nothing"},
		{grant(func(g *Grant) { g.Priority = 100 }), "priority", "100 is the priority of the plan"},
		{grant(func(g *Grant) { g.Until = time.Time{} }), "until", "missing"},
		{grant(func(g *Grant) { g.Until = friday }), "until", "not in the future"},
		{grant(func(g *Grant) { g.From = later }), "from", "ends before it begins"},
		{grant(func(g *Grant) { g.From = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), "from", "9999"},
		{grant(func(g *Grant) { g.Why = strings.Repeat("w", 4097) }), "why", "4097"},
	} {
		field, f := tt.g.Check(friday)
		if field != tt.field || !strings.Contains(f.Problem, tt.problem) || tt.problem == "" && f.Problem != "" {
			t.Errorf("%+v: %s: %s, want %s: %s", tt.g, field, f.Problem, tt.field, tt.problem)
		}
	}
	g := grant(func(g *Grant) { g.From, g.Until = friday.Add(1), later.Add(1) })
	if g.Check(friday); !g.From.Equal(friday.Add(time.Second)) || !g.Until.Equal(later.Add(time.Second)) {
		t.Errorf("rounded to %v and %v", g.From, g.Until)
	}
}

// A grant lasts until its end, to the second, also before its begin.
func TestGrantLasts(t *testing.T) {
	g := Grant{From: friday, Until: friday.Add(time.Hour)}
	for at, want := range map[time.Time]bool{
		friday.Add(-1): true, friday: true, g.Until.Add(-1): true, g.Until: false,
	} {
		if got := g.Lasts(at); got != want {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
}

// Grants are used by priority, then by their end, their begin and their ID.
func TestCompareGrants(t *testing.T) {
	at := func(name string, priority uint8, from, until int) Grant {
		return Grant{Name: name, Priority: priority, From: friday.Add(time.Duration(from)), Until: friday.Add(time.Duration(until))}
	}
	want := []Grant{at("z", 1, 9, 99), at("y", 200, 9, 10), at("x", 200, 1, 20), at("a", 200, 2, 20), at("b", 200, 2, 20)}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b Grant) int { return CompareGrants(&a, &b) })
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
