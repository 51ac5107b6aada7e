package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Schemes are the schemes of an endpoint: OTLP over HTTP, with and without TLS, and over gRPC.
var Schemes = []string{"http", "https", "grpc", "grpcs"}

// endpoint returns whether an endpoint is for gRPC, and its URL as the exporters want it.
func endpoint(text, signal string) (isGRPC bool, address string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return false, "", fmt.Errorf("parsing the endpoint: %w", err)
	}
	switch u.Scheme {
	case "grpc", "grpcs":
		return true, "http" + u.Scheme[len("grpc"):] + "://" + u.Host, nil
	}
	return false, u.JoinPath("v1", signal).String(), nil
}

// newSpans returns the exporter of traces to an endpoint. It opens no connection. A batch that
// cannot be sent is dropped: another one follows.
func newSpans(text string) (sdktrace.SpanExporter, error) {
	isGRPC, address, err := endpoint(text, "traces")
	switch {
	case err != nil:
		return nil, err
	case isGRPC:
		return otlptracegrpc.New(context.Background(), otlptracegrpc.WithEndpointURL(address), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	}
	return otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(address), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
}

// newMetrics is newSpans for metrics.
func newMetrics(text string) (sdkmetric.Exporter, error) {
	isGRPC, address, err := endpoint(text, "metrics")
	switch {
	case err != nil:
		return nil, err
	case isGRPC:
		return otlpmetricgrpc.New(context.Background(), otlpmetricgrpc.WithEndpointURL(address), otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}))
	}
	return otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(address), otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
}

// report logs when sending begins to fail, and when it works again.
type report struct {
	log      *slog.Logger
	what     string // traces or metrics
	endpoint string

	mu      sync.Mutex
	failing bool
	lost    int // batches since then
}

func (r *report) sent(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.lost++
		if !r.failing {
			r.failing = true
			r.log.Warn("cannot send "+r.what+": dropping them until the collector answers", "endpoint", r.endpoint, "error", err,
				"hint", "check the address, and whether the collector accepts "+r.what)
		}
	case r.failing:
		r.log.Info("the collector accepts "+r.what+" again", "endpoint", r.endpoint, "lost_batches", r.lost)
		r.failing, r.lost = false, 0
	}
}

// reportedSpans is an exporter of traces whose errors are reported.
type reportedSpans struct {
	sdktrace.SpanExporter
	*report
}

// ExportSpans implements sdktrace.SpanExporter.
func (s reportedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	s.sent(s.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

// reportedMetrics is an exporter of metrics whose errors are reported.
type reportedMetrics struct {
	sdkmetric.Exporter
	*report
}

// Export implements sdkmetric.Exporter.
func (m reportedMetrics) Export(ctx context.Context, metrics *metricdata.ResourceMetrics) error {
	err := m.Exporter.Export(ctx, metrics)
	if err != nil && ctx.Err() == context.Canceled {
		return nil // Stop gives up what is being sent, and then sends all metrics once more
	}
	m.sent(err)
	return nil
}
