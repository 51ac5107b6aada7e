package httpapi

import (
	"fmt"

	"stint"
	"stint/internal/envelope"
	"stint/limiter"
	"stint/rule"
)

// maxDescriptors is the most descriptors of one request. All of them are decided
// as one, under one lock of an in-memory store.
const maxDescriptors = 1000

// The fields of a check request. See scanner.object.
var (
	checkFields      = []string{"domain", "descriptors", "key", "limit", "cost"}
	descriptorFields = []string{"entries", "cost"}
	entryFields      = []string{"key", "value"}
)

const (
	hasDomain = 1 << iota
	hasDescriptors
	hasKey
	hasLimit
	hasCost
)

const costHint = "give the units to take, 0 to look without taking, or leave it out for 1"

// question is a decoded check request, in either of its forms. It keeps its memory
// from one request to the next, and its strings are parts of the body it was read
// from.
type question struct {
	req limiter.Request

	// A limit in the request: its key and the limit; nil for one by rules.
	key   string
	limit *stint.Limit

	silent []int // the descriptors without a cost of their own
}

// decode reads body, which it changes, into q. Limits found in requests are looked
// up in limits.
func (q *question) decode(body []byte, limits *limitCache) *envelope.Fault {
	q.req = limiter.Request{Descriptors: q.req.Descriptors[:0]}
	q.key, q.limit, q.silent = "", nil, q.silent[:0]
	cost := uint32(1)
	s := scanner{data: body}
	seen, f := s.object(checkFields, func(field int) (f *envelope.Fault) {
		switch 1 << field {
		case hasDomain:
			q.req.Domain, f = s.text()
		case hasDescriptors:
			f = q.descriptors(&s)
		case hasKey:
			q.key, f = s.text()
		case hasLimit:
			q.limit, f = limits.read(&s)
		case hasCost:
			cost, f = s.whole(costHint)
		}
		return f
	})
	if f == nil {
		f = s.end()
	}
	if f == nil {
		f = q.check(seen)
	}
	if f != nil {
		return f
	}
	if q.limit != nil {
		q.add().Cost = cost
		return nil
	}
	for _, i := range q.silent {
		q.req.Descriptors[i].Cost = cost
	}
	return nil
}

// check says what is missing or too much in a request with these fields.
func (q *question) check(seen uint64) *envelope.Fault {
	byRules, inline := seen&(hasDomain|hasDescriptors), seen&(hasKey|hasLimit)
	missing := func(field, hint string) *envelope.Fault { return envelope.Bad(field, "missing", hint) }
	empty := func(field, hint string) *envelope.Fault { return envelope.Bad(field, "empty", hint) }
	switch {
	case byRules != 0 && inline != 0:
		return envelope.Bad("", "a request by rules and one with its own limit at once",
			"give domain and descriptors, or key and limit")
	case byRules == 0 && inline == 0:
		return envelope.Bad("", "neither rules nor a limit to decide by",
			"give domain and descriptors, or key and limit")
	case inline != 0 && seen&hasKey == 0:
		return missing("key", "say whose bucket it is, such as user:42")
	case inline != 0 && seen&hasLimit == 0:
		return missing("limit", `give one such as {"requests": 5, "per": "1s"}, or ask by domain and descriptors`)
	case inline != 0 && q.key == "":
		return empty("key", "say whose bucket it is, such as user:42; an empty key would be shared by strangers")
	case inline != 0:
		return nil
	case seen&hasDomain == 0:
		return missing("domain", "name a domain of the rule file")
	case seen&hasDescriptors == 0:
		return missing("descriptors", "describe the request by at least one descriptor")
	case q.req.Domain == "":
		return empty("domain", "name a domain of the rule file")
	case len(q.req.Descriptors) == 0:
		return empty("descriptors", "describe the request by at least one descriptor")
	}
	return nil
}

// descriptors reads the array of that name.
func (q *question) descriptors(s *scanner) *envelope.Fault {
	_, f := s.array(func(i int) *envelope.Fault {
		if i >= maxDescriptors {
			return envelope.BadAt(s.pos, fmt.Sprintf("more than %d descriptors", maxDescriptors), "send several requests")
		}
		return q.descriptor(s, i)
	})
	return f
}

// descriptor reads one element of descriptors.
func (q *question) descriptor(s *scanner, i int) *envelope.Fault {
	const (
		hasEntries = 1 << iota
		hasCost
	)
	d := q.add()
	seen, f := s.object(descriptorFields, func(field int) (f *envelope.Fault) {
		switch 1 << field {
		case hasEntries:
			f = readEntries(s, d)
		case hasCost:
			d.Cost, f = s.whole(costHint)
		}
		return f
	})
	switch {
	case f != nil:
		return f
	case seen&hasEntries == 0:
		return envelope.BadAt(s.pos, "missing", "give at least one key and value").In("entries")
	case seen&hasCost == 0:
		q.silent = append(q.silent, i)
	}
	return nil
}

// add appends a descriptor, with the memory of the one that stood there before.
func (q *question) add() *limiter.Descriptor {
	n := len(q.req.Descriptors)
	if n < cap(q.req.Descriptors) {
		q.req.Descriptors = q.req.Descriptors[:n+1]
	} else {
		q.req.Descriptors = append(q.req.Descriptors, limiter.Descriptor{})
	}
	d := &q.req.Descriptors[n]
	d.Entries, d.Cost = d.Entries[:0], 0
	return d
}

// readEntries reads the entries of a descriptor.
func readEntries(s *scanner, d *limiter.Descriptor) *envelope.Fault {
	const (
		hasKey = 1 << iota
		hasValue
	)
	n, f := s.array(func(int) *envelope.Fault {
		var key, value string
		seen, f := s.object(entryFields, func(field int) (f *envelope.Fault) {
			switch 1 << field {
			case hasKey:
				key, f = s.text()
			case hasValue:
				value, f = s.text()
			}
			return f
		})
		switch {
		case f != nil:
			return f
		case seen&hasKey == 0:
			return envelope.BadAt(s.pos, "missing", "name what the value is, such as user").In("key")
		case key == "":
			return envelope.BadAt(s.pos, "empty", "name what the value is, such as user").In("key")
		case seen&hasValue == 0:
			return envelope.BadAt(s.pos, "missing", `give the value, "" where there is none`).In("value")
		}
		d.Entries = append(d.Entries, rule.Entry{Key: key, Value: value})
		return nil
	})
	if f == nil && n == 0 {
		return envelope.BadAt(s.pos, "empty", "give at least one key and value")
	}
	return f
}
