package telemetry

import "github.com/prometheus/client_golang/prometheus"

// number is the metric for one field of S.
type number[S any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*S) float64
}

func gauge[S any](name, help string, of func(*S) float64, labels ...string) number[S] {
	return number[S]{desc(name, help, labels...), prometheus.GaugeValue, of}
}

func counter[S any](name, help string, of func(*S) uint64, labels ...string) number[S] {
	return number[S]{desc(name, help, labels...), prometheus.CounterValue, func(s *S) float64 { return float64(of(s)) }}
}

// numbers is a collector that reads an S at each scrape: one, or one for each set of labels.
type numbers[S any] struct {
	all  []number[S]
	read func(tell func(s *S, labels ...string))
}

// Describe implements prometheus.Collector.
func (n numbers[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range n.all {
		ch <- one.desc
	}
}

// Collect implements prometheus.Collector.
func (n numbers[S]) Collect(ch chan<- prometheus.Metric) {
	n.read(func(s *S, labels ...string) {
		for _, one := range n.all {
			ch <- prometheus.MustNewConstMetric(one.desc, one.kind, one.of(s), labels...)
		}
	})
}
