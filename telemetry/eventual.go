package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// EventualStats are the numbers of what this process decides by itself and tells one store
// on the network afterwards.
type EventualStats struct {
	Keys      int64  // that are known here
	Bytes     int64  // that they take
	Unsure    int64  // keys of messages that had no answer yet
	Away      bool   // nothing comes through to some part of the store
	Reads     uint64 // of keys that were not known
	Forwarded uint64 // calls that the store decided
	Messages  uint64 // to the store, about many keys each
	Repeated  uint64 // keys in these that had no answer before
	Units     uint64 // that the store was told of
	Looks     uint64 // keys in messages of which nothing was taken here
	Evicted   uint64 // keys that went to make room
	Refused   uint64 // keys that found none, and were decided by the store

	Exchange time.Duration // how long the last one took
}

// Eventual says where the numbers of eventual rules are read from, those of each store,
// whenever metrics are. It is to be called once at most.
func (m *Metrics) Eventual(read func() []EventualStats) { m.reg.MustRegister(eventual{read}) }

var (
	eventualKeysDesc     = desc("eventual_keys", "Keys of eventual rules that are known here.")
	eventualBytesDesc    = desc("eventual_bytes", "Bytes that they take.")
	eventualUnsureDesc   = desc("eventual_unsure_keys", "Keys of which the store was told without an answer so far.")
	eventualAwayDesc     = desc("eventual_stores_away", "Stores that answer nothing at present.")
	eventualExchangeDesc = desc("eventual_exchange_seconds", "How long the last exchange took, of the slowest store.")
	eventualReadsDesc    = desc("eventual_reads_total", "Keys that were not known here and were read.")
	eventualForwardDesc  = desc("eventual_store_decisions_total", "Calls about eventual rules that were decided by the store.")
	eventualMessagesDesc = desc("eventual_messages_total", "Messages to the store, about many keys each.")
	eventualRepeatedDesc = desc("eventual_repeated_total", "Keys in messages that were told once more, as the store had not answered.")
	eventualUnitsDesc    = desc("eventual_told_units_total", "Units that the store was told of.")
	eventualLooksDesc    = desc("eventual_looks_total", "Keys in messages of which nothing was taken here.")
	eventualEvictedDesc  = desc("eventual_evicted_total", "Keys that went to make room for others.")
	eventualRefusedDesc  = desc("eventual_refused_total", "Keys that found no room and were decided by the store.")
)

// eventual collects the metrics of eventual rules.
type eventual struct{ read func() []EventualStats }

var _ prometheus.Collector = eventual{}

func (e eventual) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		eventualKeysDesc, eventualBytesDesc, eventualUnsureDesc, eventualAwayDesc, eventualExchangeDesc, eventualReadsDesc, eventualForwardDesc,
		eventualMessagesDesc, eventualRepeatedDesc, eventualUnitsDesc, eventualLooksDesc, eventualEvictedDesc, eventualRefusedDesc,
	} {
		ch <- d
	}
}

func (e eventual) Collect(ch chan<- prometheus.Metric) {
	out, s, away := sink(ch), EventualStats{}, 0.0
	for _, one := range e.read() {
		if one.Away {
			away++
		}
		s.Keys += one.Keys
		s.Bytes += one.Bytes
		s.Unsure += one.Unsure
		s.Reads += one.Reads
		s.Forwarded += one.Forwarded
		s.Messages += one.Messages
		s.Repeated += one.Repeated
		s.Units += one.Units
		s.Looks += one.Looks
		s.Evicted += one.Evicted
		s.Refused += one.Refused
		s.Exchange = max(s.Exchange, one.Exchange)
	}
	out.gauge(eventualKeysDesc, float64(s.Keys))
	out.gauge(eventualBytesDesc, float64(s.Bytes))
	out.gauge(eventualUnsureDesc, float64(s.Unsure))
	out.gauge(eventualAwayDesc, away)
	out.gauge(eventualExchangeDesc, s.Exchange.Seconds())
	out.counter(eventualReadsDesc, s.Reads)
	out.counter(eventualForwardDesc, s.Forwarded)
	out.counter(eventualMessagesDesc, s.Messages)
	out.counter(eventualRepeatedDesc, s.Repeated)
	out.counter(eventualUnitsDesc, s.Units)
	out.counter(eventualLooksDesc, s.Looks)
	out.counter(eventualEvictedDesc, s.Evicted)
	out.counter(eventualRefusedDesc, s.Refused)
}
