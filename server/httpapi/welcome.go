package httpapi

import (
	"fmt"
	"net/http"
	"strings"
)

// OpenAPIPath is the path of the OpenAPI description on both listeners.
const OpenAPIPath = "/openapi.yaml"

// path is one line of the text of GET /.
type path struct{ method, path, text string }

// welcome returns the text of GET /, which lists the paths of a listener.
func welcome(title string, paths []path, rest string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Stint, a rate limiter: %s\n\n", title)
	for _, p := range paths {
		fmt.Fprintf(&b, "  %-4s  %-15s  %s\n", p.method, p.path, p.text)
	}
	fmt.Fprintf(&b, "\n%s\n", rest)
	return []byte(b.String())
}

// pages are static pages by path.
type pages map[string]staticPage

type staticPage struct {
	kind string
	body []byte
}

// serve answers a request for one of the pages, and reports whether it did.
func (p pages) serve(w http.ResponseWriter, r *http.Request) bool {
	one, ok := p[r.URL.Path]
	if !ok {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse("GET, HEAD")(w, r)
		return true
	}
	w.Header().Set("Content-Type", one.kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(one.body) // an error means that the client has disconnected
	return true
}

// newPages returns the static pages of a listener; openAPI may be nil.
func newPages(openAPI []byte, title string, paths []path, rest string) pages {
	p := pages{}
	if openAPI != nil {
		p[OpenAPIPath] = staticPage{"application/yaml", openAPI}
		paths = append(paths, path{"GET", OpenAPIPath, "all of it, for programs"})
	}
	p["/"] = staticPage{"text/plain; charset=utf-8", welcome(title, paths, rest)}
	return p
}

// trafficPages returns the static pages of the traffic listener.
func trafficPages(options *TrafficOptions) pages {
	paths := []path{
		{"POST", CheckPath, "may this request pass? Descriptors, or a limit of your own, as JSON"},
		{"GET", AuthPath, "the same for a proxy: it asks about the request that it forwards"},
	}
	if options.JSON != nil {
		paths = append(paths, path{"POST", JSONPath, "Envoy's rate limit service in JSON"})
	}
	if options.Healthy != nil {
		paths = append(paths, path{"GET", HealthPath, "200 while calls are taken"})
	}
	return newPages(options.OpenAPI, "questions of services and proxies", paths,
		"Metrics, health, inspect and reset are on the admin listener (--admin).")
}

// adminPages returns the static pages of the admin listener.
func adminPages(options *AdminOptions) pages {
	paths := []path{
		{"GET", "/healthz", "200 while the process lives"},
		{"GET", "/readyz", "200 while calls are accepted; rules, store, last reload"},
		{"GET", "/v1/limits", "the limits in force"},
		{"POST", "/v1/inspect", "what a key has used; takes the body of a check"},
		{"POST", "/v1/reset", "forget what a key has used; the same body"},
		{"GET", "/rlconfig", "the rules as envoyproxy/ratelimit shows them"},
	}
	for _, more := range []struct {
		there bool
		path
	}{
		{options.Metrics != nil, path{"GET", "/metrics", "for Prometheus"}},
		{options.Rules != nil, path{"GET", "/v1/rules", "rules per API"}},
		{options.Gauges != nil, path{"GET", "/v1/load", "gauges of load"}},
		{options.Pprof, path{"GET", "/debug/pprof/", "profiles"}},
	} {
		if more.there {
			paths = append(paths, more.path)
		}
	}
	return newPages(options.OpenAPI, "for people and monitoring", paths,
		"stint inspect, reset, limits and health ask it from a terminal.")
}
