package telemetry

// LossStats are the numbers of lost counts of durable rules.
type LossStats struct {
	Noticed uint64     // times that this process noticed a loss
	Rules   []LostRule // rules that follow their failure policies because of one
}

// LostRule is a rule of which counts were lost.
type LostRule struct{ Domain, Rule string }

// Losses sets the function that returns the numbers of losses. It is called at each scrape. Call Losses at
// most once.
func (m *Metrics) Losses(read func() LossStats) {
	m.reg.MustRegister(numbers[LossStats]{lossNumbers[:1], func(tell func(*LossStats, ...string)) {
		s := read()
		tell(&s)
	}}, numbers[LossStats]{lossNumbers[1:], func(tell func(*LossStats, ...string)) {
		s := read()
		for _, rule := range s.Rules {
			tell(&s, rule.Domain, rule.Rule)
		}
	}})
}

// lossNumbers are the metrics of losses: that of the process, and that of each rule.
var lossNumbers = []number[LossStats]{
	counter("durable_losses_total", "Times that counts of durable rules were lost.", func(s *LossStats) uint64 { return s.Noticed }),
	gauge("durable_lost", "1 while takes of a durable rule follow on_store_failure because counts were lost.", func(*LossStats) float64 { return 1 }, "domain", "rule"),
}
