package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Each receiver has its numbers.
func TestWebhooks(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.Webhooks(func() map[string]WebhookStats {
		return map[string]WebhookStats{"shop": {Delivered: 7, Failed: 3, GivenUp: 1, Dropped: 4, Waiting: 2}, "gone": {Disabled: true}}
	})
	(&service{metrics: m}).expect(t, `
		stint_webhook_delivered_total{receiver="shop"} 7
		stint_webhook_failed_tries_total{receiver="shop"} 3
		stint_webhook_given_up_total{receiver="shop"} 1
		stint_webhook_dropped_total{receiver="shop"} 4
		stint_webhook_waiting{receiver="shop"} 2
		stint_webhook_disabled{receiver="shop"} 0
		stint_webhook_disabled{receiver="gone"} 1
	`)
}
