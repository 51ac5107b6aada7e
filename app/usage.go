package app

import (
	"net/http"
	"time"

	"stint/records/inforce"
	"stint/server/factsapi"
	"stint/store/memory"
)

// usageOptions returns the options of the handlers of usage.
func (a *App) usageOptions() factsapi.UsageOptions {
	o := factsapi.UsageOptions{
		Store: a.stores, Limiter: a.limiter, Table: a.limiter.Table, Secret: a.stores.Secret(), Namespace: a.config.Namespace, Log: a.log,
	}
	if a.clients != nil {
		o.Plan, o.Subscribed = a.clients.Plan, a.clients.Subscribed
		o.Grants = func(subject string, yield func(factsapi.Granted) bool) error {
			return a.clients.EachGrant(subject, time.Now(), func(g inforce.Granted) bool { return yield(factsapi.Granted(g)) })
		}
	}
	return o
}

// withUsage adds the path by which customers see their own usage. It needs the records, which know
// their keys.
func (a *App) withUsage(others http.Handler) http.Handler {
	me := factsapi.NewMe(factsapi.MeOptions{
		UsageOptions: a.usageOptions(), Identify: a.clients.Identify, Trusted: a.config.Proxies(),
		Guard: memory.New(memory.Options{Budget: guardBudget}),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == factsapi.MePath {
			me.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// guardBudget is how much memory the limits of factsapi.MePath may use.
const guardBudget = 1 << 20
