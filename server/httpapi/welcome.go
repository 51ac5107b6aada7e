package httpapi

import (
	"net/http"
)

// servePage answers a request for one of the static pages, and reports whether it did.
func servePage(p staticPages, w http.ResponseWriter, r *http.Request) bool {
	_, ok := p[r.URL.Path]
	switch {
	case !ok:
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuse("GET, HEAD")(w, r)
	default:
		p.serve(w, r)
	}
	return ok
}

// trafficPages returns the static pages of the traffic listener.
func trafficPages(options *TrafficOptions) staticPages {
	paths := []pagePath{
		{Method: "POST", Path: CheckPath, Text: "may this request pass? Descriptors, or a limit of your own, as JSON"},
		{Method: "POST", Path: SettlePath, Text: "how was a request answered whose check had reserve?"},
		{Method: "GET", Path: AuthPath, Text: "the same for a proxy: it asks about the request that it forwards"},
	}
	if options.JSON != nil {
		paths = append(paths, pagePath{Method: "POST", Path: JSONPath, Text: "Envoy's rate limit service in JSON"})
	}
	if options.Healthy != nil {
		paths = append(paths, pagePath{Method: "GET", Path: HealthPath, Text: "200 while calls are taken"})
	}
	return newPages(options.OpenAPI, "questions of services and proxies", paths,
		"Metrics, health, inspect and reset are on the admin listener (--admin).")
}

// adminPages returns the static pages of the admin listener.
func adminPages(options *AdminOptions) staticPages {
	paths := []pagePath{
		{Method: "GET", Path: "/healthz", Text: "200 while the process lives"},
		{Method: "GET", Path: "/readyz", Text: "200 while calls are accepted; rules, store, last reload"},
		{Method: "GET", Path: "/v1/limits", Text: "the limits in force"},
		{Method: "POST", Path: "/v1/inspect", Text: "what a key has used; takes the body of a check"},
		{Method: "POST", Path: "/v1/reset", Text: "forget what a key has used; the same body"},
		{Method: "GET", Path: "/rlconfig", Text: "the rules as envoyproxy/ratelimit shows them"},
	}
	for _, more := range []struct {
		there bool
		path  pagePath
	}{
		{options.Page != nil, pagePath{Method: "GET", Path: "/", Text: "the operators' page, for browsers"}},
		{options.Metrics != nil, pagePath{Method: "GET", Path: "/metrics", Text: "for Prometheus"}},
		{options.Rules != nil, pagePath{Method: "GET", Path: "/v1/rules", Text: "rules per API"}},
		{options.Records != nil, pagePath{Method: "GET", Path: "/v1/records", Text: "subjects, overrides, bans, API keys; /v1/audit"}},
		{options.Reads["/v1/facts"] != nil, pagePath{Method: "GET", Path: "/v1/facts", Text: "counts of rules; keys, history, denials below; /v1/live"}},
		{options.Reads["/v1/why"] != nil, pagePath{Method: "POST", Path: "/v1/why", Text: "why a client is denied, and what lets it pass; the same body"}},
		{options.Reads["/v1/alarms"] != nil, pagePath{Method: "GET", Path: "/v1/alarms", Text: "what is wrong although nobody gets an error"}},
		{options.Gauges != nil, pagePath{Method: "GET", Path: "/v1/load", Text: "gauges of load"}},
		{options.Pprof, pagePath{Method: "GET", Path: "/debug/pprof/", Text: "profiles"}},
	} {
		if more.there {
			paths = append(paths, more.path)
		}
	}
	return newPages(options.OpenAPI, "for people and monitoring", paths,
		"stint top, why, inspect, reset, limits and health ask it from a terminal.")
}
