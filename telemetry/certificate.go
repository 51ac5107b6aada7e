package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificate says where the end of the certificate of a listener is read from, whenever
// metrics are. It is to be called once at most for each listener.
func (m *Metrics) Certificate(listener string, expiry func() time.Time) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "stint_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate that a listener shows ends, in Unix time.",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(expiry().Unix()) }))
}
