// Package otlp connects Stint with OpenTelemetry: it makes traces of decisions, and sends them and the
// metrics of the service to a collector by the protocol OTLP.
//
// A service uses [New]. A program that has OpenTelemetry already gives the tracer of [NewTracer] to its
// limiter. Without a tracer a decision costs nothing.
package otlp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"stint/limiter"
)

// Options are the settings of an Exporter.
type Options struct {
	// Endpoint is the URL of the collector, with a scheme of Schemes. OTLP over HTTP adds v1/traces and
	// v1/metrics to its path. Headers and certificates come from the environment, as OpenTelemetry
	// names them: OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE and others.
	Endpoint string

	// Traces sends traces of decisions.
	Traces bool

	// Tracer are the settings of these traces.
	Tracer TracerOptions

	// Interval is the time between two messages with metrics; 0: no metrics.
	Interval time.Duration

	// Version is the version of the service.
	Version string

	// Log gets a line when the collector begins to fail, and when it works again.
	Log *slog.Logger
}

// Exporter sends traces and metrics to a collector. The queue of traces is bounded, and a decision
// never waits for the collector: what cannot be sent is dropped. It is safe for concurrent use. A nil
// Exporter sends nothing.
type Exporter struct {
	options Options
	spans   sdktrace.SpanExporter // nil: no traces
	metrics sdkmetric.Exporter    // nil: no metrics
	running atomic.Pointer[running]
}

// running is what runs between Start and Stop.
type running struct {
	spans    trace.Tracer
	tracer   limiter.Tracer
	shutdown []func(context.Context) error
}

// New returns an exporter that sends nothing before Start. It opens no connection.
func New(options Options) (*Exporter, error) {
	e := &Exporter{options: options}
	var err, failure error
	if options.Traces {
		if e.spans, err = newSpans(options.Endpoint); err != nil {
			failure = err
		}
	}
	if options.Interval > 0 {
		if e.metrics, err = newMetrics(options.Endpoint); err != nil {
			failure = errors.Join(failure, err)
		}
	}
	return e, failure
}

// report returns the reporter of the errors of traces or metrics.
func (e *Exporter) report(what string) *report {
	return &report{log: e.options.Log, what: what, endpoint: e.options.Endpoint}
}

// Start starts to send the traces of decisions, and these metrics.
func (e *Exporter) Start(metrics prometheus.Gatherer) {
	if e == nil {
		return
	}
	about := about(e.options.Version)
	r := new(running)
	if e.spans != nil {
		provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.AlwaysSample()), // the tracer samples
			sdktrace.WithBatcher(reportedSpans{e.spans, e.report("traces")}))
		r.spans, r.tracer = provider.Tracer(scope), NewTracer(provider, e.options.Tracer)
		r.shutdown = append(r.shutdown, provider.Shutdown)
	}
	if e.metrics != nil {
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(
			reportedMetrics{e.metrics, e.report("metrics")}, sdkmetric.WithInterval(e.options.Interval),
			sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(metrics))))))
		r.shutdown = append(r.shutdown, provider.Shutdown)
	}
	e.running.Store(r)
}

// stopTimeout is how long the collector may take for what is left at the end.
const stopTimeout = 2 * time.Second

// Stop sends what is left, within two seconds, and stops. Decisions afterwards are not traced.
func (e *Exporter) Stop(ctx context.Context) {
	if e == nil {
		return
	}
	r := e.running.Swap(nil)
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, shutdown := range r.shutdown {
		all.Go(func() { _ = shutdown(ctx) }) // what could not be sent is logged
	}
	all.Wait()
}

// Tracer returns the tracer of decisions, for limiter.Options; nil if there is none.
func (e *Exporter) Tracer() limiter.Tracer {
	if e == nil || e.spans == nil {
		return nil
	}
	return whileRunning{e}
}

// whileRunning is the tracer of an exporter, which makes no traces before Start and after Stop.
type whileRunning struct{ *Exporter }

// Begin implements limiter.Tracer.
func (w whileRunning) Begin(ctx context.Context) (context.Context, limiter.Trace) {
	if r := w.running.Load(); r != nil {
		return r.tracer.Begin(ctx)
	}
	return ctx, nil
}

// Handler returns next with the trace of the caller in the context of requests that have one. If there
// are no traces it returns next.
func (e *Exporter) Handler(next http.Handler) http.Handler {
	if e == nil || e.spans == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx := Header(r); ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// Incoming returns the function that adds the trace of a caller to a context, see [Incoming]; nil if
// there are no traces.
func (e *Exporter) Incoming() func(ctx context.Context, traceparent, tracestate string) context.Context {
	if e == nil || e.spans == nil {
		return nil
	}
	return Incoming
}

// about describes the service. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES may say more.
func about(version string) *resource.Resource {
	attributes := []attribute.KeyValue{attribute.String("service.name", "stint"), attribute.String("service.version", version)}
	if host, err := os.Hostname(); err == nil {
		attributes = append(attributes, attribute.String("service.instance.id", host), attribute.String("host.name", host))
	}
	own := resource.NewSchemaless(attributes...)
	given, err := resource.New(context.Background(), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return own
	}
	all, err := resource.Merge(own, given)
	if err != nil {
		return own
	}
	return all
}
