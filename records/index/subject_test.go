package index

import (
	"strings"
	"testing"
	"time"
)

var friday = time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC)

// A subject has its plan until the next one is in force, which is from that moment on.
func TestNext(t *testing.T) {
	hour := func(n int) time.Time { return friday.Add(time.Duration(n) * time.Hour) }
	for _, tt := range []struct {
		name  string
		next  Next
		at    time.Time
		plan  string
		later bool // the next plan is not in force
	}{
		{"none", Next{}, friday, "free", false},
		{"before", Next{"pro", hour(1)}, hour(1).Add(-time.Nanosecond), "free", true},
		{"from then on", Next{"pro", hour(1)}, hour(1), "pro", false},
		{"the default plan", Next{"", hour(1)}, hour(2), "", false},
	} {
		if got := tt.next.At("free", tt.at); got != tt.plan {
			t.Errorf("%s: plan %q, want %q", tt.name, got, tt.plan)
		}
		next, plan := tt.next, "free"
		if next.Settle(&plan, tt.at); plan != tt.plan || next.From.IsZero() == tt.later {
			t.Errorf("%s: settled as %q, %+v", tt.name, plan, next)
		}
	}
}

// The fault of a next plan names its field. One that is in force takes the place of the plan.
func TestNextFaults(t *testing.T) {
	later := friday.Add(time.Hour)
	for _, tt := range []struct {
		plan           string
		next           Next
		until          time.Time
		field, problem string
	}{
		{"free", Next{"pro", time.Time{}}, time.Time{}, "next_from", "missing"},
		{"free", Next{"pro", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, time.Time{}, "next_from", "9999"},
		{"free", Next{"pro", later}, later, "plan_until", "ends before it is in force"},
		{"pro", Next{"", later}, later.Add(1), "plan_until", "there is no plan"},
		{"", Next{}, later, "plan_until", "there is no plan"},
		{"free", Next{strings.Repeat("x", 257), later}, time.Time{}, "next_plan", "257 bytes"},
		{"free", Next{"pro", later}, later.Add(1), "", ""},
		{"free", Next{"", later}, time.Time{}, "", ""},
		{"", Next{"pro", friday}, later, "", ""},
	} {
		next, plan := tt.next, tt.plan
		field, f := next.Check(&plan, tt.until, friday)
		if f.Problem == "" {
			field = ""
		}
		if field != tt.field || !strings.Contains(f.Problem, tt.problem) || tt.problem == "" && f.Problem != "" {
			t.Errorf("%q, %+v: %s: %s, want %s: %s", tt.plan, tt.next, field, f.Problem, tt.field, tt.problem)
		}
	}
	next, plan := Next{"pro", friday}, "free"
	if next.Check(&plan, time.Time{}, friday); plan != "pro" || next != (Next{}) {
		t.Errorf("in force: %q, %+v", plan, next)
	}
	next = Next{"pro", later.Add(1)}
	if next.Check(&plan, time.Time{}, friday); !next.From.Equal(later.Add(time.Second)) {
		t.Errorf("rounded to %v", next.From)
	}
}

// Groups are few, not empty, and named once.
func TestCheckGroups(t *testing.T) {
	for want, groups := range map[string][]string{
		"": {"a", "b"}, "3 groups, at most 2": {"a", "b", "c"}, "a is empty or there twice": {"a", "a"}, " is empty or there twice": {""}, "control": {"a\n"},
	} {
		if f := CheckGroups(groups, 2); !strings.Contains(f.Problem, want) || want == "" && f.Problem != "" {
			t.Errorf("%q: %q, want %q", groups, f.Problem, want)
		}
	}
}
