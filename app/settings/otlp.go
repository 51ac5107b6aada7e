package settings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"stint/internal/config"
	"stint/telemetry/otlp"
)

// OTLP are the settings of OpenTelemetry.
type OTLP struct {
	// Endpoint (otlp) is the URL of a collector that gets traces and metrics: http://HOST:4318 or
	// https:// for OTLP over HTTP, grpc://HOST:4317 or grpcs:// over gRPC. Empty, the default: nothing is
	// sent. OTEL_EXPORTER_OTLP_ENDPOINT sets it too.
	Endpoint string

	// Traces (otlp-traces) sends traces of decisions; on by default.
	Traces bool

	// Sample (otlp-sample) is the part of the decisions that are traced though their caller has no
	// trace; 0 by default: callers decide. A traced decision costs some microseconds.
	Sample float64

	// Interval (otlp-interval) is the time between two messages with metrics, a minute by default; 0:
	// none.
	Interval time.Duration
}

// defaultOTLP returns the default settings.
func defaultOTLP() OTLP { return OTLP{Traces: true, Interval: time.Minute} }

// settings returns the settings of o.
func (o *OTLP) settings() []Setting {
	return []Setting{
		{"otlp", "`URL` of an OpenTelemetry collector for traces and metrics: http://, https://, grpc:// or grpcs://HOST:PORT", config.Text(&o.Endpoint, checkOTLP)},
		{"otlp-traces", "send traces of decisions there", config.Flag(&o.Traces)},
		{"otlp-sample", "`PART` of the decisions to trace whose callers have no trace", config.Fraction(&o.Sample)},
		{"otlp-interval", "`TIME` between two messages with metrics; 0: none", config.Duration(&o.Interval)},
	}
}

func checkOTLP(s string) error {
	if s == "" {
		return nil
	}
	const hint = "write http://HOST:4318 or grpc://HOST:4317, https:// or grpcs:// for TLS, or leave it empty; credentials belong in OTEL_EXPORTER_OTLP_HEADERS"
	u, err := url.Parse(s)
	if err != nil || !slices.Contains(otlp.Schemes, u.Scheme) || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return config.Fault("not the URL of a collector", hint)
	}
	if strings.HasPrefix(u.Scheme, "grpc") && strings.Trim(u.Path, "/") != "" {
		return config.Fault(fmt.Sprintf("%q has a path, which gRPC has not", s), hint)
	}
	return nil
}

// The variables of OpenTelemetry that set the collector.
const (
	otelEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelProtocol = "OTEL_EXPORTER_OTLP_PROTOCOL"
	otelDisabled = "OTEL_SDK_DISABLED"
)

// otelEnvironment returns the setting in the variables of OpenTelemetry.
func otelEnvironment(environ []string) []Given {
	values := map[string]string{}
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); name == otelEndpoint || name == otelProtocol || name == otelDisabled {
			values[name] = value
		}
	}
	endpoint := values[otelEndpoint]
	if endpoint == "" || strings.EqualFold(values[otelDisabled], "true") {
		return nil
	}
	if rest, ok := strings.CutPrefix(endpoint, "http"); ok && values[otelProtocol] == "grpc" {
		endpoint = "grpc" + rest
	}
	return []Given{{"otlp", endpoint, otelEndpoint}}
}
