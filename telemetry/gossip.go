package telemetry

// GossipStats are the numbers of the messages between nodes for limits with coordination: gossip.
type GossipStats struct {
	Keys          int64  // keys with counts in this process
	Peers         int64  // nodes that receive its messages
	Sent          uint64 // messages sent, one for each peer
	SentBytes     uint64
	Pairs         uint64 // changed counts that were sent, independent of the number of receivers
	Received      uint64 // messages received
	ReceivedBytes uint64
	Repairs       uint64 // requests for missed messages
	Damaged       uint64 // messages that could not be decoded
	Foreign       uint64 // messages in the format of another release
	Evicted       uint64 // keys evicted because there were too many
	Asked         uint64 // queries to one peer about one take
	Refused       uint64 // messages from nodes without the shared key
	Alone         bool   // no other node was found, although some are configured
}

// Gossip sets the function that returns the numbers of gossip. It is called at each scrape. Call
// Gossip at most once.
func (m *Metrics) Gossip(read func() GossipStats) {
	m.reg.MustRegister(numbers[GossipStats]{gossipNumbers, func(tell func(*GossipStats, ...string)) {
		s := read()
		tell(&s)
	}})
}

// gossipNumbers are the metrics of gossip.
var gossipNumbers = []number[GossipStats]{
	gauge("gossip_keys", "Keys with counts of this process or of other nodes.", func(s *GossipStats) float64 { return float64(s.Keys) }),
	gauge("gossip_peers", "Nodes to which this process sends its counts.", func(s *GossipStats) float64 { return float64(s.Peers) }),
	gauge("gossip_alone", "1 while the node is not ready because it has found no other node since its start.", func(s *GossipStats) float64 { return one(s.Alone) }),
	counter("gossip_sent_total", "Messages sent to other nodes, one for each receiver.", func(s *GossipStats) uint64 { return s.Sent }),
	counter("gossip_sent_bytes_total", "Bytes of these messages before encryption.", func(s *GossipStats) uint64 { return s.SentBytes }),
	counter("gossip_pairs_total", "Changed counts of keys that were sent.", func(s *GossipStats) uint64 { return s.Pairs }),
	counter("gossip_received_total", "Messages from other nodes.", func(s *GossipStats) uint64 { return s.Received }),
	counter("gossip_received_bytes_total", "Bytes of these messages.", func(s *GossipStats) uint64 { return s.ReceivedBytes }),
	counter("gossip_repairs_total", "Requests of this process for missed messages.", func(s *GossipStats) uint64 { return s.Repairs }),
	counter("gossip_damaged_total", "Messages that could not be decoded.", func(s *GossipStats) uint64 { return s.Damaged }),
	counter("gossip_foreign_total", "Messages in the format of another release.", func(s *GossipStats) uint64 { return s.Foreign }),
	counter("gossip_evicted_total", "Keys evicted because there were too many.", func(s *GossipStats) uint64 { return s.Evicted }),
	counter("gossip_asks_total", "Queries to one node about one take, of rules with gossip: ask.", func(s *GossipStats) uint64 { return s.Asked }),
	counter("gossip_refused_total", "Messages from nodes without the shared key.", func(s *GossipStats) uint64 { return s.Refused }),
}
