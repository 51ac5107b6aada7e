package telemetry

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
func (m *Metrics) Refusals(read func() RefusalStats) {
	m.reg.MustRegister(numbers[RefusalStats]{refusalNumbers, func(tell func(*RefusalStats, ...string)) {
		s := read()
		tell(&s)
	}})
}

// refusalNumbers are the metrics of these.
var refusalNumbers = []number[RefusalStats]{
	counter("refusals_answered_total", "Calls that were refused from memory, without asking the store on the network.", func(s *RefusalStats) uint64 { return s.Answered }),
	gauge("refusals_keys", "Keys whose refusal is remembered.", func(s *RefusalStats) float64 { return float64(s.Keys) }),
	gauge("refusals_bytes", "Memory that remembered refusals take.", func(s *RefusalStats) float64 { return float64(s.Bytes) }),
	counter("refusals_dropped_total", "Keys that were forgotten before their retry time: something was given back, or memory was full.", func(s *RefusalStats) uint64 { return s.Dropped }),
	counter("refusals_channel_lost_total", "Times that the notices of other nodes ceased to arrive.", func(s *RefusalStats) uint64 { return s.Lost }),
	gauge("refusals_channel_up", "1 while the notices of other nodes arrive; 0: nothing is refused from memory.", func(s *RefusalStats) float64 { return one(s.Heard) }),
}
