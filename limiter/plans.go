package limiter

import (
	"cmp"
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
	if len(v.known) > 0 {
		v.time(req)
	}
	of, ok := r.Plan.For(v.planOf(descriptor))
	if of != nil {
		return of
	}
	if len(v.known) > 0 {
		if _, ok := v.overrideOf(&Asked{Descriptor: descriptor, Rule: r}); ok {
			return r
		}
	}
	v.planless = v.planless || !ok && r.Plan.First && !r.Shadow
	return nil
}

// planOf returns the plan of a descriptor's last entry, "" for the default plan, and when its subscription
// began. v.at is set.
func (v *Verdict) planOf(descriptor int) (plan string, subscribed time.Time) {
	for _, s := range slices.Backward(v.known) {
		if s.descriptor == descriptor && s.last {
			return s.Plan(v.at)
		}
	}
	return "", subscribed
}

// grantsOf returns the grants of a descriptor's last entry for a rule that takes its limit from plans. They are
// valid until the next decision into v.
func (v *Verdict) grantsOf(r *rule.Rule, descriptor int) []Grant {
	if r.Plan == nil {
		return nil
	}
	from := len(v.grants)
	for _, s := range v.known {
		if s.descriptor == descriptor && s.last {
			v.grants = s.AppendGrants(v.grants, r.Plan.Limit, v.at)
		}
	}
	if len(v.grants) == from || !r.MayGrant() {
		return nil
	}
	return v.grants[from:len(v.grants):len(v.grants)]
}

// namePlan returns the name of the client's plan for a rule that takes its limit from plans, else "".
func (v *Verdict) namePlan(r *rule.Rule, descriptor int) string {
	if r.Plan == nil {
		return ""
	}
	plan, _ := v.planOf(descriptor)
	return cmp.Or(plan, r.Plan.Default)
}
