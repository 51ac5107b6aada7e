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
	gauge("eventual_keys", "Keys of eventual rules in memory.", func(s *eventualSum) float64 { return float64(s.Keys) }),
	gauge("eventual_bytes", "Memory of these keys in bytes.", func(s *eventualSum) float64 { return float64(s.Bytes) }),
	gauge("eventual_unsure_keys", "Keys in messages to the store without an answer yet.", func(s *eventualSum) float64 { return float64(s.Unanswered) }),
	gauge("eventual_undecodable_keys", "Keys whose counts were not sent, because the store cannot read their states.", func(s *eventualSum) float64 { return float64(s.Undecodable) }),
	gauge("eventual_stores_away", "Stores that do not answer at present.", func(s *eventualSum) float64 { return float64(s.away) }),
	gauge("eventual_exchange_seconds", "Duration of the last exchange with the slowest store.", func(s *eventualSum) float64 { return s.Exchange.Seconds() }),
	counter("eventual_reads_total", "Reads of keys that were not in memory.", func(s *eventualSum) uint64 { return s.Reads }),
	counter("eventual_store_decisions_total", "Calls of eventual rules that the store decided.", func(s *eventualSum) uint64 { return s.Forwarded }),
	counter("eventual_messages_total", "Messages to the store, each with many keys.", func(s *eventualSum) uint64 { return s.Messages }),
	counter("eventual_repeated_total", "Keys sent again because the store had not answered an earlier message.", func(s *eventualSum) uint64 { return s.Repeated }),
	counter("eventual_told_units_total", "Units sent to the store.", func(s *eventualSum) uint64 { return s.Units }),
	counter("eventual_looks_total", "Keys in messages without new units.", func(s *eventualSum) uint64 { return s.Peeks }),
	counter("eventual_evicted_total", "Keys evicted to make room.", func(s *eventualSum) uint64 { return s.Evicted }),
	counter("eventual_refused_total", "Keys without room in memory, which the store decided.", func(s *eventualSum) uint64 { return s.Refused }),
}
