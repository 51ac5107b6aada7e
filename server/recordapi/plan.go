package recordapi

import (
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/records"
)

// nextPeriod is the value of `from` for a plan that is in force from the end of the current period on.
const nextPeriod = "next_period"

// putLater returns the record of a subject that keeps the plan it has until the end of the current period
// of that plan, or of its trial, and then gets the plan of put.
func (a *api) putLater(put records.Record, before records.Entry, from string, now time.Time) (records.Record, *jsonbody.Fault) {
	s, _ := put.(records.Subject) // no other kind has the field
	if from != nextPeriod {
		return nil, jsonbody.Bad("from", text.Quote(from)+" is unknown", "write "+nextPeriod+", or leave it out for a change that is in force at once")
	}
	if !s.Next.From.IsZero() {
		return nil, jsonbody.Bad("from", "there is also next_from", "leave out one of them")
	}
	was, _ := before.Record.(records.Subject)
	plan := was.PlanAt(now)
	end, ok := time.Time{}, false
	if a.periodEnd != nil {
		end, ok = a.periodEnd(plan, s.Subscribed, now)
	}
	was.Next.Settle(&was.Plan, now)
	if until := was.PlanUntil; was.Next.From.IsZero() && now.Before(until) && (!ok || until.Before(end)) {
		end, ok = until, true
	}
	if !ok {
		name := "the plan " + text.Quote(plan)
		if plan == "" {
			name = "the default plan"
		}
		return nil, jsonbody.Bad("from", name+" has no fixed window whose period could end", "leave it out: the change is then in force at once")
	}
	s.Next.Plan, s.Next.From, s.Plan = s.Plan, end, plan
	return s, nil
}

// warnOfPlan returns a warning if the subject has, or gets, a plan that is unknown; else "".
func (a *api) warnOfPlan(s *records.Subject) string {
	for _, name := range []string{s.Plan, s.Next.Plan} {
		if name != "" && a.plan != nil && !a.plan(name) {
			return "no plan is named " + text.Quote(name) + " on this node; until there is one, the subject is denied where a rule asks for a plan"
		}
	}
	return ""
}
