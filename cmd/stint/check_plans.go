package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"stint/cmd/stint/cli"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/audit"
	"stint/rule/rulefile"
)

// exported is what check reads of an export of records: how many subjects have each plan, "" for none,
// the plans among the records, and grants.
type exported struct {
	file     string
	subjects map[string]int
	next     map[string]int // that get the plan later
	plans    []rulefile.Source
	having   map[string]exportedSubject // by name
	grants   []exportedGrant
	now      time.Time // when the file was read
}

// exportedSubject is what check reads of a subject.
type exportedSubject struct{ plan, next string }

// readExport reads a file that stint records export --format jsonl wrote; nil for no name.
func readExport(name string) (*exported, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // there are no records
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, cli.Refuse("--records: "+err.Error(), "name a file that stint records export wrote")
	}
	defer func() { _ = file.Close() }() // it is only read
	e := &exported{file: name, subjects: map[string]int{}, next: map[string]int{}, having: map[string]exportedSubject{}, now: time.Now()}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var line struct {
			Record, Plan, Subject string

			Next   string `json:"next_plan"`
			Limits json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, cli.Refuse(fmt.Sprintf("--records: %s:%d: no line of JSON", name, n), "write the file with stint records export --format jsonl")
		}
		switch line.Record {
		case "subject":
			if e.subjects[line.Plan]++; line.Next != "" {
				e.next[line.Next]++
			}
			e.having[line.Subject] = exportedSubject{line.Plan, line.Next}
		case "grant":
			e.grants = append(e.grants, readGrant(lines.Bytes(), n, e.now))
		case "plan":
			e.plans = append(e.plans, rulefile.StoredPlan(name+": plan "+line.Plan, line.Plan, line.Limits))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, cli.Refuse("--records: "+err.Error(), "name a file that stint records export wrote")
	}
	return e, nil
}

// findings returns plans that nobody has, plans of subjects that the rules lack, and grants that are of no use.
func (e *exported) findings(table *rule.Table) (all []audit.Finding) {
	if e == nil {
		return nil
	}
	known := map[string]bool{"": true}
	plans, byDefault := table.Plans()
	for _, p := range plans {
		known[p.Name] = true
		if e.subjects[p.Name]+e.next[p.Name] == 0 && p.Name != byDefault {
			all = append(all, audit.Finding{
				ID: "plan-unused", Severity: audit.Note, File: p.File, Line: p.Line,
				Text: fmt.Sprintf("plan %s: no subject of the records has it", p.Name), Hint: "leave it out, or give it to somebody with stint plans give",
			})
		}
	}
	having := maps.Clone(e.subjects)
	for name, n := range e.next {
		having[name] += n
	}
	for _, name := range slices.Sorted(maps.Keys(having)) {
		if !known[name] {
			all = append(all, audit.Finding{
				ID: "plan-unknown", Severity: audit.Warning, File: e.file,
				Text: fmt.Sprintf("plan %s is that of %s, and neither the rules nor the records have it: they are denied where a rule asks for a plan", name, text.Count(having[name], "subject")),
				Hint: "add the plan, or give them another one with stint plans give",
			})
		}
	}
	return append(all, e.grantFindings(table)...)
}

// planChanges returns which limits of plans change, and how many subjects that concerns.
func planChanges(old, now *rule.Table, e *exported) (all []audit.Change) {
	was, is := planLimits(old), planLimits(now)
	keys := slices.Collect(maps.Keys(was))
	for key := range is {
		if _, both := was[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b planLimit) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		before, after := was[key], is[key]
		if before.text == after.text && before.durable == after.durable {
			continue
		}
		c := audit.Change{Effects: []audit.Effect{audit.Other}, Domain: key[1], Who: "plan " + key[0], Rule: key[2], File: after.file, Line: after.line}
		switch {
		case before.text == "":
			c.Text = after.text + " is new"
		case after.text == "":
			c.Text, c.File, c.Line = before.text+" is gone", before.file, before.line
		default:
			c.Text = before.text + " -> " + after.text
			if before.rate < after.rate {
				c.Effects = []audit.Effect{audit.Looser}
			} else if before.rate > after.rate {
				c.Effects = []audit.Effect{audit.Stricter}
			}
			if before.durable != after.durable {
				c.Text += "; " + audit.Durable(after.durable)
			}
		}
		c.Text = key[2] + ": " + c.Text
		if e != nil {
			c.Text += "; " + text.Count(e.subjects[key[0]], "subject") + " with this plan"
			if _, byDefault := now.Plans(); key[0] == byDefault {
				c.Text += fmt.Sprintf(", %d without one, and all that have no record", e.subjects[""])
			}
		}
		all = append(all, c)
	}
	return all
}

// planLimit is a plan, a domain and the name of a rule.
type planLimit [3]string

// planNumbers are the limit of a plan for a rule.
type planNumbers struct {
	text    string
	rate    float64
	durable bool
	file    string
	line    int
}

// planLimits returns the limits of all plans.
func planLimits(t *rule.Table) map[planLimit]planNumbers {
	all := map[planLimit]planNumbers{}
	for _, r := range t.Rules() {
		if r.Plan == nil {
			continue
		}
		for name, v := range r.Plan.Rules {
			written := v.LimitText()
			if v.Zone != nil {
				written += " from the day of the subscription"
			}
			all[planLimit{name, r.Domain, r.Name}] = planNumbers{written, v.Limit.Rate(), v.IsDurable(), r.File, r.Line}
		}
	}
	return all
}
