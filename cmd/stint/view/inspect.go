package view

import (
	"fmt"
	"io"
	"time"
)

// Inspected is the answer of /v1/inspect.
type Inspected struct {
	Limits []struct {
		Rule, Plan   string
		Shadow       bool
		Config       Limit
		Limit, Used  *int64
		Remaining    *int64
		ResetAfterMS int64 `json:"reset_after_ms"`
		Degraded     bool
		Penalized    struct{ Until *time.Time }
		Loss         struct{ Until *time.Time }
		Grants       []grant
		Rollover     *grant
	}
}

// grant is what a key has of a grant, or of its rollover.
type grant struct {
	ID, Grant, Subject, Rule, Limit string
	Units, Used, Left               int64
	From                            string
	Until                           time.Time
}

// text returns what is left of the grant.
func (g *grant) text() string {
	text := fmt.Sprintf("%d of %d left until %s", g.Left, g.Units, g.Until.Format(time.RFC3339))
	if g.From != "" {
		text += ", from " + g.From
	}
	return text
}

// Print prints a line for each limit.
func (a *Inspected) Print(w io.Writer) {
	if len(a.Limits) == 0 {
		fmt.Fprintln(w, "no limit applies to this key")
		return
	}
	fmt.Fprintln(w, "RULE\tUSED\tREMAINING\tRESET\tLIMIT")
	for _, l := range a.Limits {
		used, remaining := "-", "-"
		if l.Used != nil {
			used, remaining = fmt.Sprintf("%d of %d", *l.Used, *l.Limit), fmt.Sprint(*l.Remaining)
		}
		notes := ""
		if l.Plan != "" {
			notes += " (plan " + l.Plan + ")"
		}
		if l.Shadow {
			notes += " (shadow)"
		}
		if until := l.Penalized.Until; until != nil {
			notes += " (kept away until " + until.Format(time.RFC3339) + ")"
		}
		switch until := l.Loss.Until; {
		case until != nil:
			notes += " (counts were lost: on_store_failure decides until " + until.Format(time.RFC3339) + ")"
		case l.Degraded:
			notes += " (the store did not answer)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s%s\n", OrDash(l.Rule), used, remaining,
			time.Duration(l.ResetAfterMS)*time.Millisecond, &l.Config, notes)
	}
	for _, l := range a.Limits {
		for i := range l.Grants {
			fmt.Fprintf(w, "%s: grant %s, %s\n", OrDash(l.Rule), l.Grants[i].ID, l.Grants[i].text())
		}
		if l.Rollover != nil {
			fmt.Fprintf(w, "%s: rollover, %s\n", OrDash(l.Rule), l.Rollover.text())
		}
	}
}
