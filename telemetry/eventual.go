package telemetry

import "time"

// EventualStats are the numbers of eventual rules in one store on the network: this process decides
// their takes itself and sends the counts later.
type EventualStats struct {
	Keys        int64  // keys in memory
	Bytes       int64  // memory of these keys
	Unanswered  int64  // keys in messages without an answer yet
	Undecodable int64  // keys whose counts were not sent, because the store cannot read their states
	Away        bool   // some part of the store does not answer
	Reads       uint64 // reads of keys that were not in memory
	Forwarded   uint64 // calls that the store decided
	Messages    uint64 // messages to the store, each with many keys
	Repeated    uint64 // keys sent again because an earlier message had no answer
	Units       uint64 // units sent to the store
	Peeks       uint64 // keys in messages that had no new units
	Evicted     uint64 // keys evicted to make room
	Refused     uint64 // keys without room, which the store decided

	Exchange time.Duration // duration of the last exchange
}

// Eventual sets the function that returns the numbers of eventual rules, one element for each
// store. It is called at each scrape. Call Eventual at most once.
func (m *Metrics) Eventual(read func() []EventualStats) {
	m.reg.MustRegister(numbers[eventualSum]{eventualNumbers, func(tell func(*eventualSum, ...string)) {
		var s eventualSum
		for _, one := range read() {
			s.add(&one)
		}
		tell(&s)
	}})
}

// eventualSum is the sum over all stores.
type eventualSum struct {
	EventualStats
	away int // number of stores that are away
}

func (s *eventualSum) add(one *EventualStats) {
	if one.Away {
		s.away++
	}
	s.Keys += one.Keys
	s.Bytes += one.Bytes
	s.Unanswered += one.Unanswered
	s.Undecodable += one.Undecodable
	s.Reads += one.Reads
	s.Forwarded += one.Forwarded
	s.Messages += one.Messages
	s.Repeated += one.Repeated
	s.Units += one.Units
	s.Peeks += one.Peeks
	s.Evicted += one.Evicted
	s.Refused += one.Refused
	s.Exchange = max(s.Exchange, one.Exchange)
}

// eventualNumbers are the metrics of eventual rules.
var eventualNumbers = []number[eventualSum]{
	gauge("eventual_keys", "Keys of eventual rules that are known here.", func(s *eventualSum) float64 { return float64(s.Keys) }),
	gauge("eventual_bytes", "Bytes that they take.", func(s *eventualSum) float64 { return float64(s.Bytes) }),
	gauge("eventual_unsure_keys", "Keys of which the store was told without an answer so far.", func(s *eventualSum) float64 { return float64(s.Unanswered) }),
	gauge("eventual_undecodable_keys", "Keys that the store was not told of, as it cannot read their states.", func(s *eventualSum) float64 { return float64(s.Undecodable) }),
	gauge("eventual_stores_away", "Stores that answer nothing at present.", func(s *eventualSum) float64 { return float64(s.away) }),
	gauge("eventual_exchange_seconds", "How long the last exchange took, of the slowest store.", func(s *eventualSum) float64 { return s.Exchange.Seconds() }),
	counter("eventual_reads_total", "Keys that were not known here and were read.", func(s *eventualSum) uint64 { return s.Reads }),
	counter("eventual_store_decisions_total", "Calls about eventual rules that were decided by the store.", func(s *eventualSum) uint64 { return s.Forwarded }),
	counter("eventual_messages_total", "Messages to the store, about many keys each.", func(s *eventualSum) uint64 { return s.Messages }),
	counter("eventual_repeated_total", "Keys in messages that were told once more, as the store had not answered.", func(s *eventualSum) uint64 { return s.Repeated }),
	counter("eventual_told_units_total", "Units that the store was told of.", func(s *eventualSum) uint64 { return s.Units }),
	counter("eventual_looks_total", "Keys in messages of which nothing was taken here.", func(s *eventualSum) uint64 { return s.Peeks }),
	counter("eventual_evicted_total", "Keys that went to make room for others.", func(s *eventualSum) uint64 { return s.Evicted }),
	counter("eventual_refused_total", "Keys that found no room and were decided by the store.", func(s *eventualSum) uint64 { return s.Refused }),
}
