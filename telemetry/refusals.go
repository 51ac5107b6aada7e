package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RefusalStats are the numbers of refusals of a store on the network that this process
// remembers.
type RefusalStats struct {
	Answered uint64 // calls that were answered from memory
	Keys     int64  // that are remembered
	Bytes    int64  // that they take
	Dropped  uint64 // keys that were forgotten before their time
	Lost     uint64 // times that the notices of other processes ceased to arrive
	Heard    bool   // they arrive; where they do not, nothing is answered from memory
}

// Refusals says where the numbers of remembered refusals are read from, whenever metrics
// are. It is to be called once at most.
func (m *Metrics) Refusals(read func() RefusalStats) { m.reg.MustRegister(refusals{read}) }

var (
	refusalAnsweredDesc = desc("refusals_answered_total", "Calls that were refused from memory, without asking the store on the network.")
	refusalKeysDesc     = desc("refusals_keys", "Keys whose refusal is remembered.")
	refusalBytesDesc    = desc("refusals_bytes", "Memory that remembered refusals take.")
	refusalDroppedDesc  = desc("refusals_dropped_total", "Keys that were forgotten before their retry time: something was given back, or memory was full.")
	refusalLostDesc     = desc("refusals_channel_lost_total", "Times that the notices of other nodes ceased to arrive.")
	refusalHeardDesc    = desc("refusals_channel_up", "1 while the notices of other nodes arrive; 0: nothing is refused from memory.")
)

// refusals collects the metrics of remembered refusals.
type refusals struct{ read func() RefusalStats }

var _ prometheus.Collector = refusals{}

func (r refusals) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{refusalAnsweredDesc, refusalKeysDesc, refusalBytesDesc, refusalDroppedDesc, refusalLostDesc, refusalHeardDesc} {
		ch <- d
	}
}

func (r refusals) Collect(ch chan<- prometheus.Metric) {
	out, s := sink(ch), r.read()
	out.counter(refusalAnsweredDesc, s.Answered)
	out.gauge(refusalKeysDesc, float64(s.Keys))
	out.gauge(refusalBytesDesc, float64(s.Bytes))
	out.counter(refusalDroppedDesc, s.Dropped)
	out.counter(refusalLostDesc, s.Lost)
	out.gauge(refusalHeardDesc, one(s.Heard))
}
