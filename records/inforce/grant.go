package inforce

import (
	"fmt"
	"strings"

	"stint/internal/text"
	"stint/limiter"
)

// CheckGrant checks a grant of a limit, by its name in plans, to a subject with a plan, "" for the default plan,
// against the rules of l. The warning says why the grant has no effect now; "" if it has. The error means that
// no plan has a limit of that name that could be granted.
func CheckGrant(l *limiter.Limiter, subject, limit, plan string) (warning string, err error) {
	found, may, has, name := false, false, false, "the plan "+text.Quote(plan)
	key, _, _ := strings.Cut(subject, "=")
	if table := l.Table(); table != nil {
		_, byDefault := table.Plans()
		if plan == "" {
			plan, name = byDefault, "the default plan"
		}
		for _, r := range table.Rules() {
			if r.Plan == nil || r.Plan.Limit != limit || r.Path[len(r.Path)-1].Key != key {
				continue
			}
			found = true
			for of, variant := range r.Plan.Rules {
				granted := variant.MayGrant()
				may, has = may || granted, has || granted && of == plan
			}
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
