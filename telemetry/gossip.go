package telemetry

import "github.com/prometheus/client_golang/prometheus"

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
	Evicted       uint64 // keys that were forgotten as there were too many
	Asked         uint64 // questions to one peer about one take
	Refused       uint64 // nodes without the key
}

// Gossip says where the numbers of gossip are read from whenever metrics are. It is to be
// called once at most.
func (m *Metrics) Gossip(read func() GossipStats) { m.reg.MustRegister(gossip{read}) }

var (
	gossipKeysDesc     = desc("gossip_keys", "Keys of which this process took something, or heard that others did.")
	gossipPeersDesc    = desc("gossip_peers", "Nodes that this process tells what it took.")
	gossipSentDesc     = desc("gossip_sent_total", "Messages to other nodes, one for each it went to.")
	gossipBytesDesc    = desc("gossip_sent_bytes_total", "Bytes of these, before they are encrypted.")
	gossipPairsDesc    = desc("gossip_pairs_total", "Counts of a key that had changed and were told.")
	gossipReceivedDesc = desc("gossip_received_total", "Messages from other nodes.")
	gossipHeardDesc    = desc("gossip_received_bytes_total", "Bytes of these.")
	gossipRepairsDesc  = desc("gossip_repairs_total", "Times that this process asked for messages that it had missed.")
	gossipDamagedDesc  = desc("gossip_damaged_total", "Messages that could not be read.")
	gossipEvictedDesc  = desc("gossip_evicted_total", "Keys that were forgotten as there were too many.")
	gossipAsksDesc     = desc("gossip_asks_total", "Questions to one node about one take, of rules that say gossip: ask.")
	gossipRefusedDesc  = desc("gossip_refused_total", "Messages of nodes that do not have the key.")
)

// gossip collects the metrics of gossip.
type gossip struct{ read func() GossipStats }

var _ prometheus.Collector = gossip{}

func (g gossip) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		gossipKeysDesc, gossipPeersDesc, gossipSentDesc, gossipBytesDesc, gossipPairsDesc, gossipReceivedDesc, gossipHeardDesc,
		gossipRepairsDesc, gossipDamagedDesc, gossipEvictedDesc, gossipAsksDesc, gossipRefusedDesc,
	} {
		ch <- d
	}
}

func (g gossip) Collect(ch chan<- prometheus.Metric) {
	out, s := sink(ch), g.read()
	out.gauge(gossipKeysDesc, float64(s.Keys))
	out.gauge(gossipPeersDesc, float64(s.Peers))
	out.counter(gossipSentDesc, s.Sent)
	out.counter(gossipBytesDesc, s.SentBytes)
	out.counter(gossipPairsDesc, s.Pairs)
	out.counter(gossipReceivedDesc, s.Received)
	out.counter(gossipHeardDesc, s.ReceivedBytes)
	out.counter(gossipRepairsDesc, s.Repairs)
	out.counter(gossipDamagedDesc, s.Damaged)
	out.counter(gossipEvictedDesc, s.Evicted)
	out.counter(gossipAsksDesc, s.Asked)
	out.counter(gossipRefusedDesc, s.Refused)
}
