package limiter

import (
	"net/http"
	"slices"
	"time"

	"stint/rule"
)

// NoPlan is the list of all clients whose plan has no limits for a rule.
var NoPlan = &rule.Listed{Name: "no plan", Status: http.StatusForbidden}

// ofPlan returns the rule with the limit of the client's plan, for a rule that takes it from plans; nil
// if the plan has none at this place. An override of the rule needs no plan. If the plan has no limits
// for the rule at all, the request is denied, unless the rule is in shadow mode.
func (v *Verdict) ofPlan(r *rule.Rule, descriptor int, req *Request) *rule.Rule {
	plan, subscribed := "", time.Time{}
	for _, s := range slices.Backward(v.known) {
		if s.descriptor == descriptor && s.last {
			plan, subscribed = s.Plan(v.time(req))
			break
		}
	}
	of, ok := r.Plan.For(plan, subscribed)
	if of != nil {
		return of
	}
	if len(v.known) > 0 {
		v.time(req)
		if _, ok := v.overrideOf(&Asked{Descriptor: descriptor, Rule: r}); ok {
			return r
		}
	}
	v.planless = v.planless || !ok && r.Plan.First && !r.Shadow
	return nil
}
