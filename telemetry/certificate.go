package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificate sets the function that returns the expiry of a listener's certificate. It is called
// at each scrape. Call Certificate at most once for each listener.
func (m *Metrics) Certificate(listener string, expiry func() time.Time) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "stint_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate that a listener shows ends, in Unix time.",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(expiry().Unix()) }))
}

// Connections sets the functions that return the numbers of open and of refused connections of a
// listener. They are called at each scrape. Call Connections at most once for each listener.
func (m *Metrics) Connections(listener string, open func() int64, refused func() uint64) {
	labels := prometheus.Labels{"listener": listener}
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stint_connections_open", Help: "Connections of a listener that are open.", ConstLabels: labels,
	}, func() float64 { return float64(open()) }))
	m.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "stint_connections_refused_total", Help: "Connections of a listener that were closed at once, because there were too many.", ConstLabels: labels,
	}, func() float64 { return float64(refused()) }))
}
