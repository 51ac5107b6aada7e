package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"stint"
	"stint/rule"
)

// HealthPath is the path of the health check of the traffic listener, as in envoyproxy/ratelimit.
const HealthPath = "/healthcheck"

// healthy answers HealthPath: 200 and OK, or 500 without a body.
func healthy(w http.ResponseWriter, r *http.Request, yes bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse("GET, HEAD")(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if !yes {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "OK")
}

// showConfig answers /rlconfig with one line for each limit, in the format of envoyproxy/ratelimit,
// followed by settings that only Stint has.
func (a *admin) showConfig(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	table := a.limiter.Table()
	if table == nil {
		return
	}
	var b strings.Builder
	for _, r := range table.Rules() {
		writeConfig(&b, r)
	}
	fmt.Fprint(w, b.String())
}

// writeConfig writes the line of a limit.
func writeConfig(b *strings.Builder, r *rule.Rule) {
	b.WriteString(r.Domain)
	for _, level := range r.Path {
		b.WriteString("." + level.Key)
		if level.Value != "" {
			b.WriteString("_" + level.Value)
		}
	}
	spec := r.Limit.Spec()
	if spec.Algorithm == stint.Unlimited {
		fmt.Fprintf(b, ": unlimited, name: %s\n", r.Name)
		return
	}
	unit := strings.ToUpper(r.Unit)
	if unit == "" {
		unit = spec.Per.String()
	}
	fmt.Fprintf(b, ": unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t, algorithm: %s", unit, spec.Requests, r.Shadow, r.Quota, spec.Algorithm)
	if spec.Burst > 0 {
		fmt.Fprintf(b, ", burst: %d", spec.Burst)
	}
	fmt.Fprintf(b, ", on_store_failure: %s, name: %s\n", r.OnStoreFailure, r.Name)
}
