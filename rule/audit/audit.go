// Package audit checks all rules of a table together. It finds rules that are valid but probably
// not what the author wanted, and it compares two tables.
//
// A fault makes the loader refuse a rule file; a finding of this package does not. The rules apply
// as they are written, and each [Finding] explains why that may be wrong.
package audit

import (
	"cmp"
	"fmt"
	"slices"

	"stint/rule"
)

// Severity is how much a finding matters.
type Severity uint8

// The severities, in ascending order.
const (
	// Note is a fact worth knowing; the rule is often right.
	Note Severity = iota
	// Warning is a rule that is probably wrong.
	Warning
	// Error is a fault: the rules are refused, or a rule test fails.
	Error
)

var severities = [...]string{"note", "warning", "error"}

// String returns the severity as one word.
func (s Severity) String() string { return severities[s] }

// MarshalText returns the word of String, for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one possible mistake in the rules.
type Finding struct {
	ID       string   `json:"id"` // ID of its [Kind]
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // 0 if it belongs to no line
	Rule     string   `json:"rule,omitempty"` // name of the rule; "" if it concerns no rule or several
	Text     string   `json:"text"`
	Hint     string   `json:"hint"`
}

// Table returns the findings of all rules of a table and the warnings of the loader, ordered by
// domain, file and line.
func Table(t *rule.Table) []Finding {
	var all []Finding
	for _, w := range t.Warnings() {
		all = append(all, Finding{w.ID, severityOf(w.ID), w.File, w.Line, w.Rule, w.Text, w.Hint})
	}
	order := map[string]int{}
	for _, d := range t.Domains() {
		order[d.File()] = len(order)
		a := &auditor{domain: d, pools: map[*rule.Rule]bool{}, replaced: map[string]bool{}, loose: map[*rule.Rule]bool{}}
		for _, r := range t.Rules() {
			if r.Domain == d.Name() {
				a.rules = append(a.rules, r)
			}
		}
		for _, n := range d.Nodes() {
			if _, known := order[n.File]; !known {
				order[n.File] = len(order)
			}
		}
		a.audit()
		all = append(all, a.found...)
	}
	slices.SortFunc(all, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(order[x.File], order[y.File]), cmp.Compare(x.Line, y.Line), cmp.Compare(x.ID, y.ID), cmp.Compare(x.Text, y.Text))
	})
	return all
}

// auditor checks one domain.
type auditor struct {
	domain   *rule.Domain
	rules    []*rule.Rule
	pools    map[*rule.Rule]bool // rules whose unused units elastic rules borrow
	replaced map[string]bool     // names listed in the Replaces of a rule
	loose    map[*rule.Rule]bool // rules that never deny
	found    []Finding
}

// place is a file and a line. The descriptors of one domain may be in several files.
type place struct {
	file string
	line int
}

func ruleAt(r *rule.Rule) place { return place{r.File, r.Line} }

func nodeAt(n *rule.Node) place { return place{n.File, n.Line} }

// inFile returns a line of the first file of the domain, which has the settings of the whole
// domain.
func (a *auditor) inFile(line int) place { return place{a.domain.File(), line} }

// from returns the text for place p in a finding at place other.
func (p place) from(other place) string {
	if p.file == other.file {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("line %d of %s", p.line, p.file)
}

// find adds a finding.
func (a *auditor) find(id string, at place, rule, text, hint string) {
	a.found = append(a.found, Finding{id, severityOf(id), at.file, at.line, rule, text, hint})
}

func (a *auditor) audit() {
	for _, r := range a.rules {
		if r.Elastic != nil && r.Elastic.Pool != nil {
			a.pools[r.Elastic.Pool] = true
		}
		for _, name := range r.Replaces {
			a.replaced[name] = true
		}
	}
	a.names()
	for _, r := range a.rules {
		a.numbers(r)
		a.policies(r)
	}
	a.nodes(a.domain.Nodes())
	if a.domain.HasHTTP() {
		a.http()
	} else {
		a.named()
	}
}
