package index

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"stint/internal/text"
)

// The priorities of grants. Those with a lower priority are used first.
const (
	PlanPriority  = 100 // of the limit of the plan, which no grant has
	GrantPriority = 200 // of a grant that does not say any
)

// MaxGrants is the most grants of a subject.
const MaxGrants = 16

// Grant is units that a subject has beside a limit of its plan.
type Grant struct {
	Subject  string    `json:"subject"`        // such as user=42
	Name     string    `json:"id"`             // unique among the grants of the subject
	Limit    string    `json:"limit"`          // the name of a limit in plans
	Units    uint32    `json:"units"`          // at least 1
	Priority uint8     `json:"priority"`       // lower ones are used first; never PlanPriority
	From     time.Time `json:"from,omitzero"`  // when it begins; zero: at once
	Until    time.Time `json:"until,omitzero"` // when it ends
	Why      string    `json:"why,omitempty"`
}

// Check returns the first fault of a grant, and the field that has it. It rounds its times up to a second.
func (g *Grant) Check(now time.Time) (field string, f Fault) {
	if !g.From.IsZero() {
		g.From = g.From.UTC().Add(time.Second - 1).Truncate(time.Second)
	}
	began := g.From
	for _, check := range []struct {
		field string
		Fault
	}{
		{"subject", CheckSubject(g.Subject)},
		{"id", checkGrantName(g.Name)},
		{"limit", CheckName(g.Limit)},
		{"why", CheckText(g.Why)},
		{"until", CheckUntil(&g.Until, now)},
	} {
		if check.Problem != "" {
			return check.field, check.Fault
		}
	}
	switch {
	case g.Limit == "":
		return "limit", Fault{"missing", "name a limit of the plans, such as api"}
	case g.Units == 0:
		return "units", Fault{"0 units grant nothing", "say how many units the subject may use beside its plan, or delete the grant"}
	case g.Priority == PlanPriority:
		return "priority", Fault{fmt.Sprintf("%d is the priority of the plan itself", PlanPriority), fmt.Sprintf("write a lower number, from 0, to use the grant before the plan, or a higher one, up to 255, to use it after the plan; the default is %d", GrantPriority)}
	case g.Until.IsZero():
		return "until", Fault{"missing", "say when the grant ends, such as 2030-01-31T12:00:00Z, 7d or 2w"}
	case began.Year() > LastYear:
		return "from", Fault{"after the year 9999", "name an earlier time"}
	case !began.Before(g.Until):
		return "from", Fault{"the grant ends before it begins", "name a time before " + g.Until.Format(time.RFC3339)}
	}
	return "", Fault{}
}

// maxGrantName is the most bytes of the ID of a grant.
const maxGrantName = 64

// checkGrantName checks the ID of a grant.
func checkGrantName(name string) Fault {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.:"
	switch {
	case name == "":
		return Fault{"missing", "give it one, such as the number of the order"}
	case len(name) > maxGrantName || strings.Trim(name, letters) != "":
		return Fault{text.Shorten(name) + " is not an ID", fmt.Sprintf("write at most %d letters, digits, dots, colons, hyphens and underscores", maxGrantName)}
	}
	return Fault{}
}

// Lasts reports whether the grant has not ended at a time. It may not have begun.
func (g *Grant) Lasts(now time.Time) bool { return now.Before(g.Until) }

// CompareGrants orders the grants of a subject as they are used: by priority, then by their end, their
// begin and their ID.
func CompareGrants(a, b *Grant) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Until.Compare(b.Until), a.From.Compare(b.From), strings.Compare(a.Name, b.Name))
}
