package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stint/internal/text"
	"stint/records"
	"stint/rule"
	"stint/rule/audit"
)

// exportedGrant is a grant of an export of records.
type exportedGrant struct {
	line  int    // of the file
	name  string // for messages
	grant records.Grant
	fault error // why nodes refuse the grant; nil if they do not
}

// readGrant reads a line with a grant.
func readGrant(line []byte, number int, now time.Time) (g exportedGrant) {
	g.line, g.grant.Priority = number, records.GrantPriority
	g.fault = json.Unmarshal(line, &g.grant)
	g.name = fmt.Sprintf("grant %s of %s", text.Shorten(cmp.Or(g.grant.Name, "without an id")), text.Shorten(cmp.Or(g.grant.Subject, "nobody")))
	if g.fault == nil && !g.ended(now) {
		var file records.File // no other record matters
		_, g.fault = file.Check(g.grant, false, now)
	}
	return g
}

// ended reports whether the grant has ended at a time.
func (g *exportedGrant) ended(now time.Time) bool {
	return !g.grant.Until.IsZero() && !g.grant.Lasts(now)
}

// grantFindings returns grants that no request can use, or can use no longer, and those of subjects that the
// records lack. Grants with the same fault make one finding.
func (e *exported) grantFindings(table *rule.Table) (all []audit.Finding) {
	type group struct {
		first *exportedGrant
		count int
	}
	groups := map[audit.Finding]*group{}
	var order []audit.Finding
	for i := range e.grants {
		g := &e.grants[i]
		for _, f := range e.checkGrant(table, g) {
			if groups[f] == nil {
				groups[f], order = &group{first: g}, append(order, f)
			}
			groups[f].count++
		}
	}
	slices.SortStableFunc(order, func(a, b audit.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	for _, f := range order {
		first := groups[f].first
		who := first.name
		if more := groups[f].count - 1; more > 0 {
			who += fmt.Sprintf(" and %d more", more)
		}
		f.File, f.Line, f.Text = e.file, first.line, who+": "+f.Text
		all = append(all, f)
	}
	return all
}

// checkGrant returns the findings of a grant, with the text that follows its name.
func (e *exported) checkGrant(table *rule.Table, g *exportedGrant) (all []audit.Finding) {
	useless := func(text, hint string) []audit.Finding {
		return append(all, audit.Finding{ID: "grant-useless", Severity: audit.Warning, Text: text, Hint: hint})
	}
	subject, known := e.having[g.grant.Subject]
	fault, refused := errors.AsType[*records.Error](g.fault)
	switch {
	case refused:
		field := fault.Where[strings.LastIndex(fault.Where, ":")+1:]
		return useless("nodes refuse it:"+field+": "+fault.Problem, fault.Hint)
	case g.fault != nil:
		return useless("nodes refuse it: "+g.fault.Error(), "write the file with stint records export --format jsonl")
	case g.ended(e.now):
		return append(all, audit.Finding{ID: "grant-ended", Severity: audit.Note, Text: "it has ended", Hint: "leave it out, or give a new one with stint grants add"})
	case !known:
		all = append(all, audit.Finding{
			ID: "grant-no-subject", Severity: audit.Note,
			Text: "the records have no such subject, so the default plan counts for it", Hint: "check the subject, or give it a plan with stint plans give",
		})
	}
	warning, err := table.CheckGrant(g.grant.Subject, g.grant.Limit, subject.plan)
	if subject.next != "" && warning != "" {
		warning, err = table.CheckGrant(g.grant.Subject, g.grant.Limit, subject.next)
	}
	const hint = "check its subject and its limit, or remove it with stint grants remove"
	switch {
	case err != nil:
		return useless(err.Error(), hint)
	case warning != "":
		return useless(warning, hint)
	}
	return all
}
