package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/httplimit"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule/rulefile"
	"stint/store/memory"
)

type callerKey struct{}

// callers is a tracer that keeps the callers in the contexts of decisions.
type callers []any

// Begin implements limiter.Tracer.
func (c *callers) Begin(ctx context.Context) (context.Context, limiter.Trace) {
	*c = append(*c, ctx.Value(callerKey{}))
	return ctx, nil
}

// The context of a decision is that of Options.Context, so that a tracer finds the trace of the caller.
func TestContext(t *testing.T) {
	const rules = `domain: api
descriptors:
  - key: remote_address
    rate_limit: {requests: 1, per: 1h}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
`
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(rules)})
	testkit.Must(t, err)
	limit, err := stint.NewLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 5, Per: time.Hour})
	testkit.Must(t, err)
	from := func(r *http.Request) context.Context {
		return context.WithValue(r.Context(), callerKey{}, r.Header.Get("Traceparent"))
	}
	for name, wrap := range map[string]func(*callers, httplimit.Options) func(http.Handler) http.Handler{
		"rules": func(c *callers, o httplimit.Options) func(http.Handler) http.Handler {
			return httplimit.New(limiter.New(memory.New(memory.Options{}), table, limiter.Options{Tracer: c}), "api", o)
		},
		"limit": func(c *callers, o httplimit.Options) func(http.Handler) http.Handler {
			o.Tracer = c
			return httplimit.Limit(memory.New(memory.Options{}), limit, o)
		},
	} {
		var got callers
		for _, options := range []httplimit.Options{{Context: from}, {}} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
			r.Header.Set("Traceparent", "caller")
			wrap(&got, options)(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
		}
		if want := (callers{"caller", nil}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
