package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestGossip(t *testing.T) {
	m := New(prometheus.NewRegistry())
	m.Gossip(func() GossipStats {
		return GossipStats{
			Keys: 1, Peers: 2, Sent: 3, SentBytes: 4, Pairs: 5, Received: 6, ReceivedBytes: 7, Repairs: 8, Damaged: 9,
			Evicted: 10, Asked: 11, Refused: 12, Foreign: 13,
		}
	})
	s := &service{metrics: m}
	s.expect(t, `
		stint_gossip_keys 1
		stint_gossip_peers 2
		stint_gossip_sent_total 3
		stint_gossip_sent_bytes_total 4
		stint_gossip_pairs_total 5
		stint_gossip_received_total 6
		stint_gossip_received_bytes_total 7
		stint_gossip_repairs_total 8
		stint_gossip_damaged_total 9
		stint_gossip_foreign_total 13
		stint_gossip_evicted_total 10
		stint_gossip_asks_total 11
		stint_gossip_refused_total 12`)
}
