package telemetry

// WebhookStats are the numbers of a receiver of webhooks.
type WebhookStats struct {
	Delivered, Failed, GivenUp, Dropped uint64 // of this process
	Waiting                             int    // on all nodes
	Disabled                            bool
}

// Webhooks sets the function that returns the numbers of the receivers by their names. It is called at each
// scrape. Call Webhooks at most once.
func (m *Metrics) Webhooks(read func() map[string]WebhookStats) {
	m.reg.MustRegister(numbers[WebhookStats]{webhookNumbers, func(tell func(*WebhookStats, ...string)) {
		for name, s := range read() {
			tell(&s, name)
		}
	}})
}

// webhookNumbers are the metrics of a receiver.
var webhookNumbers = []number[WebhookStats]{
	counter("webhook_delivered_total", "Events that a receiver accepted from this node.", func(s *WebhookStats) uint64 { return s.Delivered }, "receiver"),
	counter("webhook_failed_tries_total", "Tries to deliver an event that failed on this node; most are tried again.", func(s *WebhookStats) uint64 { return s.Failed }, "receiver"),
	counter("webhook_given_up_total", "Events that this node gave up to deliver; stint webhooks retry tries them again.", func(s *WebhookStats) uint64 { return s.GivenUp }, "receiver"),
	counter("webhook_dropped_total", "Events that this node dropped, as too many wait for the receiver or were given up.", func(s *WebhookStats) uint64 { return s.Dropped }, "receiver"),
	gauge("webhook_waiting", "Events that wait to be delivered, on all nodes that share them.", func(s *WebhookStats) float64 { return float64(s.Waiting) }, "receiver"),
	gauge("webhook_disabled", "1 if the receiver answered 410 and gets no event until somebody retries one.", func(s *WebhookStats) float64 { return one(s.Disabled) }, "receiver"),
}
