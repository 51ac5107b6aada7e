package telemetry

// RefusalStats are the numbers of the deny cache, which stores refusals of a store on the network.
type RefusalStats struct {
	Answered uint64 // calls answered from the cache
	Keys     int64  // keys in the cache
	Bytes    int64  // memory of these keys
	Dropped  uint64 // keys evicted before their retry time
	Lost     uint64 // times that notices of other processes stopped arriving
	Heard    bool   // notices arrive; otherwise the cache is not used
}

// Refusals sets the function that returns the numbers of the deny cache. It is called at each
// scrape. Call Refusals at most once.
func (m *Metrics) Refusals(read func() RefusalStats) {
	m.reg.MustRegister(numbers[RefusalStats]{refusalNumbers, func(tell func(*RefusalStats, ...string)) {
		s := read()
		tell(&s)
	}})
}

// refusalNumbers are the metrics of the deny cache.
var refusalNumbers = []number[RefusalStats]{
	counter("refusals_answered_total", "Calls refused by the deny cache, without asking the store on the network.", func(s *RefusalStats) uint64 { return s.Answered }),
	gauge("refusals_keys", "Keys in the deny cache.", func(s *RefusalStats) float64 { return float64(s.Keys) }),
	gauge("refusals_bytes", "Memory of the deny cache in bytes.", func(s *RefusalStats) float64 { return float64(s.Bytes) }),
	counter("refusals_dropped_total", "Keys removed from the deny cache before their retry time: units were given back, or memory was full.", func(s *RefusalStats) uint64 { return s.Dropped }),
	counter("refusals_channel_lost_total", "Times that notices of other nodes stopped arriving.", func(s *RefusalStats) uint64 { return s.Lost }),
	gauge("refusals_channel_up", "1 while notices of other nodes arrive; 0: the deny cache is not used.", func(s *RefusalStats) float64 { return one(s.Heard) }),
}
