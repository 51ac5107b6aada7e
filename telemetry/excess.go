package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"stint/limiter/line"
)

// Lines sets the function that returns the numbers of the waiting lines of rules with `excess: wait`.
// It is called at each scrape. Call Lines at most once.
func (m *Metrics) Lines(read func() []line.Stats) { m.reg.MustRegister(lines{read}) }

// lines is the collector of waiting lines.
type lines struct{ read func() []line.Stats }

var (
	waitingDesc     = desc("excess_waiting", "Requests that wait for a limit now.", "domain", "rule")
	enteredDesc     = desc("excess_entered_total", "Requests that got a place in a waiting line.", "domain", "rule")
	leftDesc        = desc("excess_left_total", "Requests that left a waiting line, by outcome; moved: to the line of another limit.", "domain", "rule", "outcome")
	lineRefusedDesc = desc("excess_refused_total", "Requests that got no place in a waiting line, by outcome.", "domain", "rule", "outcome")
	waitedDesc      = desc("excess_waited_seconds_total", "How long requests that left a waiting line had waited.", "domain", "rule")
)

// Describe implements prometheus.Collector.
func (l lines) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingDesc, enteredDesc, leftDesc, lineRefusedDesc, waitedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l lines) Collect(ch chan<- prometheus.Metric) {
	out := sink(ch)
	for _, s := range l.read() {
		out.gauge(waitingDesc, float64(s.Waiting), s.Domain, s.Rule)
		out.counter(enteredDesc, s.Entered, s.Domain, s.Rule)
		for _, o := range line.Outcomes() {
			if o != line.Full {
				out.counter(leftDesc, s.Left[o], s.Domain, s.Rule, o.String())
			}
			if o == line.Full || o == line.Late || o == line.Drained {
				out.counter(lineRefusedDesc, s.Refused[o], s.Domain, s.Rule, o.String())
			}
		}
		out <- prometheus.MustNewConstMetric(waitedDesc, prometheus.CounterValue, s.Waited.Seconds(), s.Domain, s.Rule)
	}
}
