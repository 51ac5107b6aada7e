package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Built adds the metric stint_build_info with the version of the service; its value is always 1.
func (m *Metrics) Built(version string) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stint_build_info",
		Help: "The version that runs, and the Go that built it; always 1.",
		ConstLabels: prometheus.Labels{
			"version": version, "goversion": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		},
	}, func() float64 { return 1 }))
}
