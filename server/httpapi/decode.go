package httpapi

import (
	"fmt"

	"stint"
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
func (q *question) decode(body []byte, limits *limitCache) *fault {
	q.req = limiter.Request{Descriptors: q.req.Descriptors[:0]}
	q.key, q.limit, q.silent = "", nil, q.silent[:0]
	cost := uint32(1)
	s := scanner{data: body}
	seen, f := s.object(checkFields, func(field int) (f *fault) {
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
func (q *question) check(seen uint64) *fault {
	byRules, inline := seen&(hasDomain|hasDescriptors), seen&(hasKey|hasLimit)
	missing := func(field, hint string) *fault { return bad(-1, "missing", hint).at(field) }
	empty := func(field, hint string) *fault { return bad(-1, "empty", hint).at(field) }
	switch {
	case byRules != 0 && inline != 0:
		return bad(-1, "a request by rules and one with its own limit at once",
			"give domain and descriptors, or key and limit")
	case byRules == 0 && inline == 0:
		return bad(-1, "neither rules nor a limit to decide by",
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
func (q *question) descriptors(s *scanner) *fault {
	_, f := s.array(func(i int) *fault {
		if i >= maxDescriptors {
			return bad(s.pos, fmt.Sprintf("more than %d descriptors", maxDescriptors), "send several requests")
		}
		return q.descriptor(s, i)
	})
	return f
}

// descriptor reads one element of descriptors.
func (q *question) descriptor(s *scanner, i int) *fault {
	const (
		hasEntries = 1 << iota
		hasCost
	)
	d := q.add()
	seen, f := s.object(descriptorFields, func(field int) (f *fault) {
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
		return bad(s.pos, "missing", "give at least one key and value").at("entries")
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
func readEntries(s *scanner, d *limiter.Descriptor) *fault {
	const (
		hasKey = 1 << iota
		hasValue
	)
	n, f := s.array(func(int) *fault {
		var key, value string
		seen, f := s.object(entryFields, func(field int) (f *fault) {
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
			return bad(s.pos, "missing", "name what the value is, such as user").at("key")
		case key == "":
			return bad(s.pos, "empty", "name what the value is, such as user").at("key")
		case seen&hasValue == 0:
			return bad(s.pos, "missing", `give the value, "" where there is none`).at("value")
		}
		d.Entries = append(d.Entries, rule.Entry{Key: key, Value: value})
		return nil
	})
	if f == nil && n == 0 {
		return bad(s.pos, "empty", "give at least one key and value")
	}
	return f
}
