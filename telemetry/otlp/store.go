package otlp

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"stint"
)

// store adds a span for each call to the store around it, in traces of decisions.
type store struct {
	inner      stint.Store
	exporter   *Exporter
	attributes trace.SpanStartOption
}

// Store returns inner with a span, stint.store, for each of its calls in a trace: the round trip to a
// server with this name. Calls outside of traces cost a look at their context. If e is nil it returns
// inner.
func (e *Exporter) Store(inner stint.Store, system, server string) stint.Store {
	if e == nil {
		return inner
	}
	return &store{inner, e, trace.WithAttributes(attribute.String("db.system.name", system), attribute.String("stint.store", server))}
}

// Decide implements stint.Store.
func (s *store) Decide(ctx context.Context, call *stint.Call) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return s.inner.Decide(ctx, call)
	}
	r := s.exporter.running.Load()
	if r == nil {
		return s.inner.Decide(ctx, call)
	}
	_, span := r.spans.Start(ctx, "stint.store", trace.WithSpanKind(trace.SpanKindClient), s.attributes)
	defer span.End()
	span.SetAttributes(attribute.Int("stint.takes", len(call.Takes)))
	err := s.inner.Decide(ctx, call)
	if err != nil { // without the text of the error, which may contain a key
		what := "failed"
		if errors.Is(err, context.DeadlineExceeded) {
			what = "timeout"
		}
		span.SetStatus(codes.Error, what)
	}
	return err
}
