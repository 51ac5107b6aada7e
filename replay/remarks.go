package replay

import "stint/rule"

// remarks is what a replay by rules finds worth a word beside its counts.
type remarks struct {
	over     int64   // lines that passed above a plain limit
	lent     bool    // the line being decided is one, if nobody denies it
	overOf   []int64 // what rules let pass above theirs, by rule.Index
	silent   int64   // lines without a status that limits wanted to know
	badCosts int64   // lines that name a cost that is none
	badFirst string
	badPaths int64 // lines with a path that may be too many others
	pathOf   string
	broken   []string // what is not compared
}

// badCost notes a line that names a cost that is none.
func (m *remarks) badCost(err error) {
	if m.badCosts++; m.badCosts == 1 {
		m.badFirst = printable(err.Error(), maxSample)
	}
}

// badPath notes a line with a path that may be too many others.
func (m *remarks) badPath(err error) {
	if m.badPaths++; m.badPaths == 1 {
		m.pathOf = printable(err.Error(), maxSample)
	}
}

// remark adds what is to be known before believing the numbers.
func (m *remarks) remark(r *Report, rules []*rule.Rule) {
	r.BadCosts, r.Over = m.badCosts, m.over
	if m.badCosts > 0 {
		r.note("%s a cost that is none (%s) and would have been answered 400: denied, but by no rule.",
			count(m.badCosts, "request names", "requests name"), m.badFirst)
	}
	if m.badPaths > 0 {
		r.note("%s a path that servers may read in too many ways (%s) and would have been answered 400: denied, but by no rule.",
			count(m.badPaths, "request has", "requests have"), m.pathOf)
	}
	if m.silent > 0 {
		r.note("%s no status: limits that count responses charged it.", count(m.silent, "line has", "lines have"))
	}
	for i, rule := range rules {
		if rule.Elastic != nil && rule.Elastic.Pool == nil {
			r.note("Rule %s lends by a load, which no log tells: nobody was lent anything.", rule.Name)
		}
		if n := m.overOf[i]; n > 0 {
			r.note("%s above the plain limit of rule %s.", count(n, "request passed", "requests passed"), rule.Name)
		}
	}
	r.Notes = append(r.Notes, m.broken...)
}
