package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Usage is the answer to /v1/usage and the paths below it.
type Usage struct {
	Usage, Plans []used
	Grants       []grant
	Rollovers    []grant
}

// used is a row of the answer, of a subject or of a plan.
type used struct {
	Subject, Plan, Rule, Limit, Start, End string
	Subjects                               int
	Used                                   uint64
	Open                                   bool
}

// Print prints the use in columns, by plan or by subject.
func (a *Usage) Print(w io.Writer, plans bool) {
	switch {
	case len(a.Usage)+len(a.Plans)+len(a.Grants)+len(a.Rollovers) == 0:
		fmt.Fprintln(w, "none")
		return
	case len(a.Grants)+len(a.Rollovers) > 0:
		fmt.Fprintln(w, "SUBJECT\tRULE\tGRANT\tLEFT")
	case plans:
		fmt.Fprintln(w, "PLAN\tRULE\tPERIOD\tSUBJECTS\tUSED")
	default:
		fmt.Fprintln(w, "SUBJECT\tPLAN\tRULE\tPERIOD\tUSED")
	}
	balances := slices.Concat(a.Rollovers, a.Grants)
	slices.SortStableFunc(balances, func(a, b grant) int { return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Rule, b.Rule)) })
	for i := range balances {
		g := &balances[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.Subject, strings.TrimSuffix(g.Rule+" "+g.Limit, " "), cmp.Or(g.Grant, "(rollover)"), g.text())
	}
	for _, r := range a.Plans {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", OrDash(r.Plan), r.name(), r.period(), r.Subjects, r.units())
	}
	for _, r := range a.Usage {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Subject, OrDash(r.Plan), r.name(), r.period(), r.units())
	}
}

// name returns the rule, with the limit of the plan if it has one.
func (r *used) name() string { return strings.TrimSuffix(r.Rule+" "+r.Limit, " ") }

func (r *used) period() string { return r.Start + " to " + r.End }

func (r *used) units() string {
	if r.Open {
		return fmt.Sprintf("%d so far", r.Used)
	}
	return fmt.Sprint(r.Used)
}
