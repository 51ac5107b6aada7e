package modes

import (
	"slices"

	"stint"
	"stint/rule"
	"stint/rule/audit"
)

// each returns a finding for each rule with a coordination, whose text and hint say sets.
func each(table *rule.Table, c rule.Coordination, id string, say func(r *rule.Rule, f *audit.Finding)) []audit.Finding {
	return findings(table, id, func(r *rule.Rule, f *audit.Finding) {
		if r.Coordination == c {
			say(r, f)
		}
	})
}

// findings returns a finding for each rule for which say sets a text. For a rule with a plan there is one for each plan,
// or one in all if they are the same.
func findings(table *rule.Table, id string, say func(r *rule.Rule, f *audit.Finding)) (all []audit.Finding) {
	for _, r := range table.Rules() {
		var found []audit.Finding
		same, variants := true, variants(r)
		for _, of := range variants {
			f := audit.Finding{ID: id, File: r.File, Line: r.Line, Rule: r.Name}
			if of.Limit.Algorithm() != stint.Unlimited {
				say(of, &f)
			}
			same = same && (len(found) == 0 || f.Text == found[0].Text)
			found = append(found, f)
		}
		for i, of := range variants {
			if !same && found[i].Text != "" {
				found[i].Text = "plan " + of.OfPlan + ": " + found[i].Text
			}
		}
		if same {
			found = found[:1]
		}
		all = append(all, slices.DeleteFunc(found, func(f audit.Finding) bool { return f.Text == "" })...)
	}
	return all
}

// variants returns the rule, or the rules of all plans that have a limit at its place.
func variants(r *rule.Rule) (all []*rule.Rule) {
	if r.Plan == nil {
		return []*rule.Rule{r}
	}
	for _, name := range r.Plan.Plans() {
		all = append(all, r.Plan.Rules[name].Rule)
	}
	return all
}
