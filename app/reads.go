package app

import (
	"net/http"

	"stint/facts"
	"stint/server/factsapi"
	"stint/server/httpapi"
)

// reads returns the handlers of facts and explanations, by path.
func (a *App) reads() map[string]http.Handler {
	var log facts.Reader
	if a.facts != nil {
		log = a.facts
	}
	all := map[string]http.Handler{
		factsapi.AlarmsPath: factsapi.NewAlarms(a.alarms.List),
		factsapi.WhyPath:    factsapi.NewWhy(factsapi.WhyOptions{Limiter: a.limiter, Check: httpapi.ReadCheck, MaxBody: httpapi.MaxBody, Facts: log}),
	}
	known := a.facts.handler(a.limiter.Table)
	for _, path := range factsapi.Paths {
		all[path] = known
	}
	return all
}
