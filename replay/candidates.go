package replay

import (
	"io"
	"slices"

	"stint"
	"stint/internal/limits"
	"stint/internal/text"
	"stint/replay/whatif"
	"stint/rule"
)

// CandidateCount compares the limit of a rule with the candidate that it tries, on the same lines.
type CandidateCount struct {
	Rule string `json:"rule"`

	// Now has the decisions of the limit in force, Then those of the candidate.
	Now  CandidateDecisions `json:"now"`
	Then CandidateDecisions `json:"then"`
}

// CandidateDecisions are the decisions of a limit, or of its candidate.
type CandidateDecisions struct {
	Limit         string `json:"limit"`
	Allowed       int64  `json:"allowed"`
	Denied        int64  `json:"denied"`
	DeniedClients int64  `json:"denied_clients"`
}

// candidate counts the decisions about one candidate.
type candidate struct {
	rule      *rule.Rule
	now, then counted
}

// counted are the decisions of a limit, and the clients that it denied.
type counted struct {
	allowed, denied int64
	clients         map[uint32]bool
}

func (c *counted) add(d *stint.Decision, client uint32) {
	if d.Allowed {
		c.allowed++
		return
	}
	c.denied++
	if c.clients == nil {
		c.clients = map[uint32]bool{}
	}
	c.clients[client] = true
}

func (c *counted) decisions(l *stint.Limit) CandidateDecisions {
	return CandidateDecisions{limits.Format(l), c.allowed, c.denied, int64(len(c.clients))}
}

// addCandidates prepares for the candidates of the rules. They are the same in all columns.
func (d *rulesDecider) addCandidates() {
	d.candidates = map[*rule.Rule]*candidate{}
	for _, r := range d.table.Rules() {
		if r.Candidate == nil {
			continue
		}
		limits := slices.Repeat([]*stint.Limit{r.Candidate.Stored}, 1+len(d.compared))
		d.states.Set(r.Candidate.Stored, &whatif.Kind{Limits: limits, Shadow: true})
		d.candidates[r] = &candidate{rule: r}
	}
}

// countCandidates adds the decisions of the candidates of a line.
func (d *rulesDecider) countCandidates(client uint32) {
	for i := range d.verdict.Candidates {
		c := &d.verdict.Candidates[i]
		a := &d.verdict.Asked[c.Of]
		if of := d.candidates[a.Rule.Original()]; of != nil && a.Cost > 0 {
			of.now.add(&a.Decision, client)
			of.then.add(&c.Decision, client)
		}
	}
}

// reportCandidates writes the candidates into a report, in the order of the rules.
func (d *rulesDecider) reportCandidates(r *Report) {
	for _, of := range d.table.Rules() {
		if c := d.candidates[of]; c != nil {
			r.Candidates = append(r.Candidates, CandidateCount{of.Name, c.now.decisions(of.Limit), c.then.decisions(of.Candidate.Limit)})
		}
	}
}

func (r *Report) textCandidates(w io.Writer, width int) {
	if len(r.Candidates) == 0 {
		return
	}
	t := text.Table{Head: []string{"Candidate", "Allowed", "Denied", "", "Denied " + r.ClientKind}}
	for _, c := range r.Candidates {
		for i, d := range [...]CandidateDecisions{c.Now, c.Then} {
			t.Add(c.Rule+[...]string{" now: ", " then: "}[i]+d.Limit, d.Allowed, d.Denied, text.Percent(d.Denied, d.Allowed+d.Denied), d.DeniedClients)
		}
	}
	t.Write(w, width)
}
