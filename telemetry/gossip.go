package telemetry

// GossipStats are the numbers of what nodes tell each other about limits that say
// coordination: gossip.
type GossipStats struct {
	Keys          int64  // of which this process knows something
	Peers         int64  // nodes that it tells
	Sent          uint64 // messages, one for each peer
	SentBytes     uint64
	Pairs         uint64 // counts that had changed and were told, whoever they went to
	Received      uint64 // messages
	ReceivedBytes uint64
	Repairs       uint64 // times that it asked for what it had missed
	Damaged       uint64 // messages that could not be read
	Foreign       uint64 // messages in the format of another release
	Evicted       uint64 // keys that were forgotten as there were too many
	Asked         uint64 // questions to one peer about one take
	Refused       uint64 // nodes without the key
}

// Gossip says where the numbers of gossip are read from whenever metrics are. It is to be
// called once at most.
func (m *Metrics) Gossip(read func() GossipStats) {
	m.reg.MustRegister(numbers[GossipStats]{gossipNumbers, func(tell func(*GossipStats, ...string)) {
		s := read()
		tell(&s)
	}})
}

// gossipNumbers are the metrics of these.
var gossipNumbers = []number[GossipStats]{
	gauge("gossip_keys", "Keys of which this process took something, or heard that others did.", func(s *GossipStats) float64 { return float64(s.Keys) }),
	gauge("gossip_peers", "Nodes that this process tells what it took.", func(s *GossipStats) float64 { return float64(s.Peers) }),
	counter("gossip_sent_total", "Messages to other nodes, one for each it went to.", func(s *GossipStats) uint64 { return s.Sent }),
	counter("gossip_sent_bytes_total", "Bytes of these, before they are encrypted.", func(s *GossipStats) uint64 { return s.SentBytes }),
	counter("gossip_pairs_total", "Counts of a key that had changed and were told.", func(s *GossipStats) uint64 { return s.Pairs }),
	counter("gossip_received_total", "Messages from other nodes.", func(s *GossipStats) uint64 { return s.Received }),
	counter("gossip_received_bytes_total", "Bytes of these.", func(s *GossipStats) uint64 { return s.ReceivedBytes }),
	counter("gossip_repairs_total", "Times that this process asked for messages that it had missed.", func(s *GossipStats) uint64 { return s.Repairs }),
	counter("gossip_damaged_total", "Messages that could not be read.", func(s *GossipStats) uint64 { return s.Damaged }),
	counter("gossip_foreign_total", "Messages in the format of another release.", func(s *GossipStats) uint64 { return s.Foreign }),
	counter("gossip_evicted_total", "Keys that were forgotten as there were too many.", func(s *GossipStats) uint64 { return s.Evicted }),
	counter("gossip_asks_total", "Questions to one node about one take, of rules that say gossip: ask.", func(s *GossipStats) uint64 { return s.Asked }),
	counter("gossip_refused_total", "Messages of nodes that do not have the key.", func(s *GossipStats) uint64 { return s.Refused }),
}
