package app

import (
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/rule"
	"stint/server/httpapi/limitjson"
	"stint/server/recordapi"
)

// lossOptions returns the options of the handler of lost counts.
func (a *App) lossOptions() recordapi.LossOptions {
	return recordapi.LossOptions{
		Losses: func() (all []recordapi.Loss) {
			for _, one := range a.stores.Losses() {
				all = append(all, recordapi.Loss{Rule: one.Rule, Place: one.Place, Since: one.Since, Until: one.Until})
			}
			return all
		},
		Rules: func() map[string]string {
			names := map[string]string{}
			for _, r := range a.limiter.Table().Durable() {
				full := transaction.RuleName(r.Domain, r.Name)
				names[r.Name], names[full] = full, full
			}
			return names
		},
		Accept: a.stores.AcceptLoss, Records: a.records, Log: a.log,
	}
}

// lossOf returns the loss of a rule, nil if there is none.
func (a *App) lossOf(r *rule.Rule) *limitjson.Loss {
	if !r.IsDurable() {
		return nil
	}
	name := transaction.RuleName(r.Domain, r.Name)
	for _, one := range a.stores.Losses() {
		if one.Rule == name {
			return &limitjson.Loss{Place: one.Place, Since: one.Since, Until: one.Until}
		}
	}
	return nil
}

// lossEnds implements [stores.Options.LossEnds]: overrides give limits whose periods end later.
func (a *App) lossEnds(r *rule.Rule, lost stint.Instant) stint.Instant {
	ends := func(l *stint.Limit) stint.Instant { return transaction.LossEnds(l, lost) }
	if a.clients == nil {
		return ends(r.Stored)
	}
	return a.clients.overridden.Until(r, time.Now(), ends)
}
