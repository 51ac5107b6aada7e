package replay

import (
	"stint/internal/text"
	"stint/rule"
)

// remarks collects facts about a replay by rules that the report notes beside its counts.
type remarks struct {
	over     int64   // lines that passed above the plain limit
	above    bool    // the line being decided passes above its limit, if no rule denies it
	overOf   []int64 // units that each rule let pass above its limit, by rule.Index
	noStatus int64   // lines without the status that limits needed
	badCosts int64   // lines with an invalid cost
	badFirst string
	badPaths int64 // lines with a path that has too many readings
	pathOf   string
	broken   []string // comparisons that are not possible
}

// badCost counts a line with an invalid cost.
func (m *remarks) badCost(err error) {
	if m.badCosts++; m.badCosts == 1 {
		m.badFirst = text.Visible(err.Error(), maxSample)
	}
}

// badPath counts a line with a path that has too many readings.
func (m *remarks) badPath(err error) {
	if m.badPaths++; m.badPaths == 1 {
		m.pathOf = text.Visible(err.Error(), maxSample)
	}
}

// remark adds notes that help to judge the numbers to the report.
func (m *remarks) remark(r *Report, rules []*rule.Rule) {
	r.BadCosts, r.Over = m.badCosts, m.over
	if m.badCosts > 0 {
		r.note("%s an invalid cost (%s) and would have been answered 400: denied, but by no rule.",
			text.Plural(m.badCosts, "request names", "requests name"), m.badFirst)
	}
	if m.badPaths > 0 {
		r.note("%s a path with too many readings (%s) and would have been answered 400: denied, but by no rule.",
			text.Plural(m.badPaths, "request has", "requests have"), m.pathOf)
	}
	if m.noStatus > 0 {
		r.note("%s no status: limits that count responses charged it.", text.Plural(m.noStatus, "line has", "lines have"))
	}
	for i, rule := range rules {
		if rule.Elastic != nil && rule.Elastic.Pool == nil {
			r.note("Rule %s allows borrowing by a load, which logs do not contain: no request could borrow.", rule.Name)
		}
		if rule.Penalty != nil {
			r.note("The penalty of rule %s is part of the rules as written; the comparison of algorithms leaves it out.", rule.Name)
		}
		if n := m.overOf[i]; n > 0 {
			r.note("%s above the plain limit of rule %s.", text.Plural(n, "request passed", "requests passed"), rule.Name)
		}
	}
	r.Notes = append(r.Notes, m.broken...)
}
