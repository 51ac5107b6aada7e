package otlp

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"stint"
	"stint/limiter"
)

// scope is the name of the library in every trace.
const scope = "stint"

// DefaultMost is the default of [TracerOptions].Most.
const DefaultMost = 1000

// TracerOptions are the settings of a tracer.
type TracerOptions struct {
	// Sample is the part of the decisions, 0 to 1, that are traced although their caller has no trace.
	// Whether a decision is part of its caller's trace is decided by the caller.
	Sample float64

	// Most is the largest number of decisions that are traced in a second; 0 means DefaultMost. Others
	// are decided without a trace, so that clients who ask for a trace of everything cost little.
	Most uint32
}

// NewTracer returns a tracer for limiter.Options, which makes its spans with a provider. The parent
// of a decision is the span in the context of the caller, see also [Header] and [Incoming].
//
// A span has the name stint.decide and the attributes stint.domain, stint.rule, stint.outcome
// (allowed, denied, waiting or error), stint.reason of a denial, stint.list, stint.limit,
// stint.remaining, stint.degraded, stint.over and stint.unmatched. It never has a key or an entry.
func NewTracer(provider trace.TracerProvider, options TracerOptions) limiter.Tracer {
	if options.Most == 0 {
		options.Most = DefaultMost
	}
	return &tracer{spans: provider.Tracer(scope), sample: options.Sample, budget: budget{most: options.Most}}
}

type tracer struct {
	spans  trace.Tracer
	sample float64
	budget budget
}

// Begin implements limiter.Tracer.
func (t *tracer) Begin(ctx context.Context) (context.Context, limiter.Trace) {
	parent := trace.SpanContextFromContext(ctx)
	if parent.IsValid() {
		if !parent.IsSampled() {
			return ctx, nil
		}
	} else if t.sample <= 0 || rand.Float64() >= t.sample {
		return ctx, nil
	}
	if !t.budget.take(time.Now().Unix()) {
		return ctx, nil
	}
	kind := trace.SpanKindServer
	if parent.IsValid() && !parent.IsRemote() {
		kind = trace.SpanKindInternal
	}
	ctx, span := t.spans.Start(ctx, "stint.decide", trace.WithSpanKind(kind))
	if !span.IsRecording() {
		return ctx, nil
	}
	return ctx, decision{span}
}

// budget lets a number of decisions pass in each second of the clock.
type budget struct {
	most uint32
	used atomic.Uint64 // the second in the upper half, and how many passed in it
}

func (b *budget) take(second int64) bool {
	for {
		before := b.used.Load()
		now := uint64(uint32(second)) << 32
		if before>>32 == now>>32 {
			now = before
		}
		if uint32(now) >= b.most {
			return false
		}
		if b.used.CompareAndSwap(before, now+1) {
			return true
		}
	}
}

// decision is the trace of one decision.
type decision struct{ span trace.Span }

// The outcomes of a decision.
const (
	allowed = "allowed"
	denied  = "denied"
	waiting = "waiting" // it waits for its limit, and is decided again
	failed  = "error"
)

// End implements limiter.Trace.
func (d decision) End(v *limiter.Verdict, err error) {
	defer d.span.End()
	if err != nil {
		d.span.SetAttributes(attribute.String("stint.outcome", failed))
		d.span.SetStatus(codes.Error, "no decision") // the text of the error may contain a key
		return
	}
	outcome := denied
	switch {
	case v.Pending:
		outcome = waiting
	case v.Allowed:
		outcome = allowed
	}
	attributes := append(make([]attribute.KeyValue, 0, 10), // for all of them
		attribute.String("stint.domain", clean(v.Domain)), attribute.String("stint.outcome", outcome))
	text := func(name, value string) {
		if value != "" {
			attributes = append(attributes, attribute.String(name, clean(value)))
		}
	}
	flag := func(name string, set bool) {
		if set {
			attributes = append(attributes, attribute.Bool(name, true))
		}
	}
	if v.Rule != nil {
		text("stint.rule", v.Rule.Name)
	}
	if v.Listed != nil {
		text("stint.list", v.Listed.Name)
	}
	if !v.Pending {
		text("stint.reason", string(v.Reason()))
	}
	if v.Rule != nil && v.Limit != stint.NoLimit {
		attributes = append(attributes, attribute.Int64("stint.limit", v.Limit), attribute.Int64("stint.remaining", v.Remaining))
	}
	flag("stint.degraded", v.Degraded)
	flag("stint.over", v.Over)
	flag("stint.unmatched", v.Unmatched)
	d.span.SetAttributes(attributes...)
}

// maxText is the most bytes of a text in a span.
const maxText = 256

// clean returns a text that a collector accepts: a domain may be any bytes of a client.
func clean(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD")
}
