package index

import (
	"fmt"
	"slices"
	"time"

	"stint/internal/text"
)

// The kinds of subjects.
const (
	User         = "user"
	Organisation = "organisation"
	Key          = "key"
)

// CheckClient checks the kind of a subject and the begin of its subscription.
func CheckClient(kind string, subscribed time.Time) (field string, f Fault) {
	const hint = "write user, organisation or key"
	switch year := subscribed.Year(); {
	case kind == "":
		return "kind", Fault{"missing", hint}
	case kind != User && kind != Organisation && kind != Key:
		return "kind", Fault{text.Shorten(kind) + " is no kind of subject", hint}
	case year > LastYear || year < 1:
		return "subscribed", Fault{fmt.Sprintf("not between the years 1 and %d", LastYear), "correct the date"}
	}
	return "", Fault{}
}

// CheckGroups checks the groups of a subject, of which there may be most.
func CheckGroups(groups []string, most int) Fault {
	if len(groups) > most {
		return Fault{fmt.Sprintf("%d groups, at most %d", len(groups), most), "use fewer groups"}
	}
	for i, group := range groups {
		if group == "" || slices.Contains(groups[:i], group) {
			return Fault{text.Shorten(group) + " is empty or there twice", "name each group once"}
		}
		if f := CheckName(group); f.Problem != "" {
			return f
		}
	}
	return Fault{}
}

// Next is the plan that a subject gets later. The zero Next is none.
type Next struct {
	Plan string    `json:"plan,omitempty"` // "" for the default plan
	From time.Time `json:"from,omitzero"`  // when it is in force
}

// At returns the subject's plan at a time; plan is the one before.
func (n *Next) At(plan string, now time.Time) string {
	if n.From.IsZero() || now.Before(n.From) {
		return plan
	}
	return n.Plan
}

// Settle makes plan the next one if that is in force.
func (n *Next) Settle(plan *string, now time.Time) {
	if !n.From.IsZero() && !now.Before(n.From) {
		*plan, *n = n.Plan, Next{}
	}
}

// Check checks the plan that follows on another, rounds its begin up to a second, and settles it. until is the end
// of the last plan, zero for none.
func (n *Next) Check(plan *string, until, now time.Time) (field string, f Fault) {
	switch {
	case n.From.IsZero() && n.Plan != "":
		return "next_from", Fault{"missing", "say when the next plan is in force"}
	case n.From.Year() > LastYear:
		return "next_from", Fault{"after the year 9999", "name an earlier time"}
	case !n.From.IsZero() && !until.IsZero() && !until.After(n.From):
		return "plan_until", Fault{"the next plan ends before it is in force", "name a time after " + n.From.UTC().Format(time.RFC3339)}
	}
	if !n.From.IsZero() {
		n.From = n.From.UTC().Add(time.Second - 1).Truncate(time.Second)
	}
	n.Settle(plan, now)
	if last := n.At(*plan, n.From); last == "" && !until.IsZero() {
		return "plan_until", Fault{"there is no plan that it could end", "name a plan, or leave it out"}
	}
	return "next_plan", CheckName(n.Plan)
}
