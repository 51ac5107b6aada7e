package limiter

import "context"

// Tracer follows decisions, for distributed traces; see package telemetry/otlp. It runs in the
// goroutine of the request, in many at a time, so it must be quick and must not block.
type Tracer interface {
	// Begin is called before every decision. It returns the context for the calls to the store, and the
	// trace of the decision; nil if this one is not traced.
	Begin(ctx context.Context) (context.Context, Trace)
}

// Trace is the trace of one decision.
type Trace interface {
	// End is called once, with the verdict, or the error if there is none. It must not keep v.
	End(v *Verdict, err error)
}

// endTrace ends the trace of the decision, if there is one.
func (v *Verdict) endTrace(err error) {
	if v.trace != nil {
		v.trace.End(v, err)
		v.trace = nil
	}
}
