package app

import "stint/telemetry/otlp"

// openOTLP makes what sends traces and metrics to a collector, if one is configured.
func (a *App) openOTLP() (err error) {
	o := &a.config.OTLP
	if o.Endpoint == "" {
		return nil
	}
	a.otlp, err = otlp.New(otlp.Options{
		Endpoint: o.Endpoint, Traces: o.Traces, Tracer: otlp.TracerOptions{Sample: o.Sample}, Interval: o.Interval, Version: Version(), Log: a.log,
	})
	if err != nil {
		return a.config.Fault("otlp", err.Error(), "check the variables of the environment that begin with OTEL_EXPORTER_OTLP_")
	}
	return nil
}
