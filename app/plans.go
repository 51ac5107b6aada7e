package app

import (
	"slices"
	"sync/atomic"
	"time"

	"stint/records"
	"stint/rule"
	"stint/rule/rulefile"
)

// storedPlans are the plans among the records, as sources of rules.
type storedPlans struct {
	sources atomic.Pointer[[]rulefile.Source]
}

// all returns the plans.
func (p *storedPlans) all() []rulefile.Source {
	if sources := p.sources.Load(); sources != nil {
		return *sources
	}
	return nil
}

// preparePlans implements [records.PlanSet]: the rules with these plans must be valid. The returned function
// reloads the rules with them.
func (a *App) preparePlans(all []records.Plan) (commit func(), err error) {
	sources := make([]rulefile.Source, len(all))
	for i, p := range all {
		sources[i] = rulefile.StoredPlan("plan "+p.Name, p.Name, p.Limits)
	}
	if a.limiter == nil { // New reads the rules
		return func() { a.plans.sources.Store(&sources) }, nil
	}
	if _, err := LoadRules(&a.config, sources...); err != nil {
		return nil, err
	}
	return func() {
		a.plans.sources.Store(&sources)
		_ = a.reload("plans changed", true) // an error is logged; the files have changed since
	}, nil
}

// knowsPlan reports whether the rules in force have a plan.
func (a *App) knowsPlan(name string) bool {
	plans, _ := a.limiter.Table().Plans()
	return slices.ContainsFunc(plans, func(p rule.Plan) bool { return p.Name == name })
}

// periodEnd implements [recordapi.Options.PeriodEnd] by the rules in force.
func (a *App) periodEnd(plan string, subscribed, now time.Time) (end time.Time, ok bool) {
	return a.limiter.Table().PeriodEnd(plan, subscribed, now)
}

// addPlans returns the rules of the start with the plans of the records. If they do not fit, the rules of
// the files alone are in force.
func (a *App) addPlans(table *rule.Table) *rule.Table {
	if len(a.plans.all()) == 0 {
		return table
	}
	with, err := LoadRules(&a.config, a.plans.all()...)
	if err != nil {
		for _, fault := range faults(err) {
			a.log.Error("plans of the records refused: clients of these plans are denied", fault...)
		}
		return table
	}
	return with
}
