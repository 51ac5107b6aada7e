package app

import (
	"slices"
	"time"

	"stint/records"
	"stint/rule"
	"stint/rule/rulefile"
)

// storedPlans are the plans among the records, as sources of rules. The mutex of the rules guards them, once New
// has returned.
type storedPlans struct {
	inForce []rulefile.Source
	refused *[]rulefile.Source // what the records have instead, and does not fit the rules; nil: nothing
	reason  error              // why it does not
}

// preparePlans implements [records.PlanSet]: the rules with these plans must be valid. The returned function
// reloads the rules with them, or remembers them until they fit.
func (a *App) preparePlans(all []records.Plan) (commit func(), err error) {
	sources := make([]rulefile.Source, len(all))
	for i, p := range all {
		sources[i] = rulefile.StoredPlan("plan "+p.Name, p.Name, p.Limits)
	}
	if a.limiter == nil { // New reads the rules
		return func() { a.plans.inForce = sources }, nil
	}
	a.rules.mu.Lock()
	defer a.rules.mu.Unlock()
	if _, err := LoadRules(&a.config, sources...); err != nil {
		return func() {
			a.rules.mu.Lock()
			defer a.rules.mu.Unlock()
			a.plans.refused, a.plans.reason = &sources, err
			a.logRefusedPlansLocked()
			_ = a.retrying(err) // if only descriptors or memory were short; it is logged
		}, err
	}
	return func() {
		a.rules.mu.Lock()
		defer a.rules.mu.Unlock()
		a.plans = storedPlans{inForce: sources}
		_ = a.reloadLocked("plans changed", true) // an error is logged; the files have changed since
	}, nil
}

// loadLocked loads the rules, with the plans that were refused before if they fit by now.
func (a *App) loadLocked() (*rule.Table, error) {
	if refused := a.plans.refused; refused != nil {
		table, err := LoadRules(&a.config, *refused...)
		if err == nil {
			a.plans = storedPlans{inForce: *refused}
			a.log.Info("plans of the records fit the rules: using them", "plans", len(*refused))
			return table, nil
		}
		a.plans.reason = err
	}
	return LoadRules(&a.config, a.plans.inForce...)
}

// load loads the rules as a reload would, and changes nothing.
func (a *App) load() (*rule.Table, error) {
	a.rules.mu.Lock()
	defer a.rules.mu.Unlock()
	return LoadRules(&a.config, a.plans.inForce...)
}

// logRefusedPlansLocked logs that other plans than those of the records are in force, if that is so.
func (a *App) logRefusedPlansLocked() {
	if a.plans.refused == nil {
		return
	}
	for _, fault := range faults(a.plans.reason) {
		a.log.Error("plans of the records refused: keeping the old ones, and trying again when rules or records change", fault...)
	}
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
// the files alone are in force until they do.
func (a *App) addPlans(table *rule.Table) *rule.Table {
	stored := a.plans.inForce
	if len(stored) == 0 {
		return table
	}
	with, err := LoadRules(&a.config, stored...)
	if err != nil {
		a.plans = storedPlans{refused: &stored, reason: err}
		for _, fault := range faults(err) {
			a.log.Error("plans of the records refused: clients of these plans are denied until rules or records change", fault...)
		}
		return table
	}
	return with
}
