package app

import (
	"net/http"

	"stint/server/factsapi"
	"stint/server/httpapi"
	"stint/server/recordapi"
)

// reads returns the handlers of facts, explanations and webhooks, by path.
func (a *App) reads() map[string]http.Handler {
	why := factsapi.WhyOptions{Limiter: a.limiter, Check: httpapi.ReadCheck, MaxBody: httpapi.MaxBody}
	if a.facts != nil {
		why.Facts, why.ID = a.facts, a.facts.ID
	}
	all := map[string]http.Handler{
		factsapi.AlarmsPath: factsapi.NewAlarms(a.alarms.List),
		factsapi.WhyPath:    factsapi.NewWhy(why),
		factsapi.UsagePath:  factsapi.NewUsage(a.usageOptions()),
	}
	all[recordapi.LossPath] = recordapi.NewLosses(a.lossOptions())
	all[recordapi.WebhooksPath] = http.HandlerFunc(recordapi.NoWebhooks)
	if a.webhooks != nil {
		all[recordapi.WebhooksPath] = recordapi.NewWebhooks(a.webhooks, a.log)
	}
	known := a.facts.handler(a.limiter.Table)
	for _, path := range factsapi.Paths {
		all[path] = known
	}
	return all
}
