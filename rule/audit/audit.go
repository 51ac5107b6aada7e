// Package audit reads rules as a whole: it finds what they say but can hardly mean,
// and tells what a change of them changes for whom.
//
// A fault refuses a rule file. What is found here does not: the rules decide as they
// are written, and each [Finding] says why that may not be what was wanted.
package audit

import (
	"cmp"
	"fmt"
	"slices"

	"stint/rule"
)

// Severity says how much a finding matters.
type Severity uint8

// The severities, the least first.
const (
	// Note is worth knowing and often right.
	Note Severity = iota
	// Warning is what the rules say and probably do not mean.
	Warning
	// Error is a fault: rules that are refused, or a test that fails.
	Error
)

var severities = [...]string{"note", "warning", "error"}

// String returns the word for the severity.
func (s Severity) String() string { return severities[s] }

// MarshalText makes the word stand in JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that should be looked at.
type Finding struct {
	ID       string   `json:"id"` // of its [Kind]
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // 0 where it is in no line
	Rule     string   `json:"rule,omitempty"` // name of the rule; "" where it concerns none or several
	Text     string   `json:"text"`
	Hint     string   `json:"hint"`
}

// Table finds what the rules of a table may not mean, with the warnings that reading
// them gave, in the order of the domains, their files and lines.
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

// auditor looks at one domain.
type auditor struct {
	domain   *rule.Domain
	rules    []*rule.Rule
	pools    map[*rule.Rule]bool // rules that lend
	replaced map[string]bool     // names that rules replace
	loose    map[*rule.Rule]bool // rules that never deny
	found    []Finding
}

// place is where something stands: the descriptors of a domain may be in several files.
type place struct {
	file string
	line int
}

func ruleAt(r *rule.Rule) place { return place{r.File, r.Line} }

func nodeAt(n *rule.Node) place { return place{n.File, n.Line} }

// inFile is a line of the file in which the domain begins, with all that is for the whole of it.
func (a *auditor) inFile(line int) place { return place{a.domain.File(), line} }

// from names the place where somebody reads another one.
func (p place) from(other place) string {
	if p.file == other.file {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("line %d of %s", p.line, p.file)
}

// find notes a finding.
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
