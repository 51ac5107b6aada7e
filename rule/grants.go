package rule

import (
	"fmt"
	"strings"

	"stint"
	"stint/internal/text"
)

// MayGrant reports whether clients may have grants of the rule's limit: a fixed window of a plan whose takes the
// store decides one by one.
func (r *Rule) MayGrant() bool {
	spec := r.Limit.Spec()
	return r.Plan != nil && spec.Algorithm == stint.FixedWindow && !spec.FromFirst && !spec.Overdraw &&
		r.Coordination == Strict && r.Elastic == nil && r.Soft == 0 && r.Tally == nil
}

// CheckGrant checks a grant of a limit, by its name in plans, to a subject with a plan, "" for the default plan.
// The warning says why the grant has no effect now; "" if it has. The error means that no plan has a limit of
// that name that could be granted. t may be nil.
func (t *Table) CheckGrant(subject, limit, plan string) (warning string, err error) {
	if t == nil {
		t = new(Table)
	}
	key, _, _ := strings.Cut(subject, "=")
	name := "the plan " + text.Quote(plan)
	if plan == "" {
		plan, name = t.defaultPlan, "the default plan"
	}
	found, may, has := false, false, false
	for _, r := range t.rules {
		if r.Plan == nil || r.Plan.Limit != limit || r.Path[len(r.Path)-1].Key != key {
			continue
		}
		found = true
		for of, variant := range r.Plan.Rules {
			granted := variant.MayGrant()
			may, has = may || granted, has || granted && of == plan
		}
	}
	switch {
	case !found:
		return fmt.Sprintf("no rule of this node takes a limit %s from the plan of a %s; the grant has no effect until one does", text.Quote(limit), text.Quote(key)), nil
	case !may:
		return "", fmt.Errorf("no plan has a limit %s of which units can be granted", text.Quote(limit))
	case !has && plan == "":
		return "the subject has no plan; the grant has no effect until it has one", nil
	case !has:
		return name + " of the subject has no limit " + text.Quote(limit) + " of which units can be granted; the grant has no effect until it has", nil
	}
	return "", nil
}
