package otlp

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// w3c reads the header fields of W3C Trace Context.
var w3c propagation.TraceContext

// The fields of W3C Trace Context.
const (
	parentField = "traceparent"
	stateField  = "tracestate"
)

// Header returns the context of a request with the span that its header names as parent, for
// httplimit.Options.Context and for servers of your own. If the context has a span, of middleware that
// has read the header, or if the header has no valid traceparent, it returns the context of the request.
func Header(r *http.Request) context.Context {
	if r.Header.Get(parentField) == "" || trace.SpanContextFromContext(r.Context()).IsValid() {
		return r.Context()
	}
	return w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}

// Incoming returns ctx with the span that a traceparent and a tracestate name as parent. If
// traceparent is not valid it returns ctx.
func Incoming(ctx context.Context, traceparent, tracestate string) context.Context {
	return w3c.Extract(ctx, propagation.MapCarrier{parentField: traceparent, stateField: tracestate})
}
