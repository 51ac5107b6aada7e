package httpapi

import (
	"fmt"
	"slices"

	"stint"
	"stint/internal/jsonbody"
	"stint/limiter"
	"stint/rule"
	"stint/server/httpapi/limitjson"
)

// The fields of a check request. See jsonbody.Scanner.
var (
	checkFields      = []string{"domain", "descriptors", "key", "limit", "cost", "at_most", "checks", "reserve"}
	descriptorFields = []string{"entries", "cost"}
	entryFields      = []string{"key", "value"}
)

const (
	hasDomain = 1 << iota
	hasDescriptors
	hasKey
	hasLimit
	hasCost
	hasAtMost
	hasChecks
	hasReserve
)

const costHint = "give the units to take, 0 to look without taking, or leave it out for 1"

// question is a decoded check request, in either of its forms. It reuses its memory, and its
// strings refer to the body that it was decoded from.
type question struct {
	req limiter.Request

	// The key and limit of a request with its own limit; nil for one by rules.
	key   string
	limit *stint.Limit

	checks []check // the checks of a batch, which has nothing else; nil: it is one check

	withoutCost []int        // indices of the descriptors without a cost of their own
	entries     []rule.Entry // entries of all descriptors, one after another
}

// ReadCheck decodes the body of a check by rules, for other handlers that take one. It modifies body, and
// the request refers to it.
func ReadCheck(body []byte) (*limiter.Request, *jsonbody.Fault) {
	var q question
	var known limitjson.Cache
	known.Init()
	switch f := q.decode(body, &known, oneCheck); {
	case f != nil:
		return nil, f
	case q.limit != nil:
		return nil, jsonbody.Bad("limit", "is not taken here", "give domain and descriptors: only rules are explained")
	case q.req.Op != stint.Ask:
		return nil, jsonbody.Bad("at_most", "is not taken here", "leave it out")
	case q.req.Answers:
		return nil, jsonbody.Bad("reserve", "is not taken here", "leave it out: nothing is charged")
	}
	return &q.req, nil
}

// smallBody is the size in bytes up to which a body is decoded without counting its parts first.
const smallBody = 512

// keepsLittle reports whether the memory is small enough to keep for the next request.
func (q *question) keepsLittle() bool {
	return q.checks == nil && cap(q.req.Descriptors) <= keptDescriptors && cap(q.entries) <= keptEntries
}

// The largest number of descriptors and entries whose memory is kept for the next request: some 64
// KiB with all that a decision needs for them.
const (
	keptDescriptors = 128
	keptEntries     = 512
)

// form is what a check may be.
type form uint8

const (
	oneCheck form = iota // one check
	anyForm              // one, or a batch
	ofABatch             // one of a batch
)

// decode decodes body into q and modifies body. It looks up limits of requests in limits.
func (q *question) decode(body []byte, limits *limitjson.Cache, may form) *jsonbody.Fault {
	s := jsonbody.Scanner{Data: body}
	f := q.object(&s, limits, may)
	if f == nil {
		f = s.End()
	}
	return f
}

// object decodes a check or a batch.
func (q *question) object(s *jsonbody.Scanner, limits *limitjson.Cache, may form) *jsonbody.Fault {
	q.req = limiter.Request{Descriptors: q.req.Descriptors[:0]}
	q.key, q.limit, q.withoutCost, q.entries, q.checks = "", nil, q.withoutCost[:0], q.entries[:0], nil
	cost, atMost := uint32(1), false
	seen, f := s.Object(checkFields, func(field int) (f *jsonbody.Fault) {
		switch 1 << field {
		case hasDomain:
			q.req.Domain, f = s.TextUpTo(limiter.MaxKey)
		case hasDescriptors:
			if may != ofABatch && len(s.Data) > smallBody {
				q.room(s.Data)
			}
			f = q.descriptors(s)
		case hasKey:
			q.key, f = s.TextUpTo(limiter.MaxValue)
		case hasLimit:
			q.limit, f = limits.Read(s)
		case hasCost:
			cost, f = s.Whole(costHint)
		case hasAtMost:
			atMost, f = s.Truth()
		case hasChecks:
			f = q.many(s, limits, may)
		case hasReserve:
			q.req.Answers, f = s.Truth()
		}
		return f
	})
	switch {
	case f != nil:
		return f
	case seen == hasChecks:
		return nil
	case seen&hasChecks != 0:
		return jsonbody.Bad("checks", "given beside other fields", "give each check its own domain, key, limit and cost")
	}
	if f := q.check(seen); f != nil {
		return f
	}
	if q.req.Answers && (q.limit != nil || may == ofABatch) {
		return jsonbody.Bad("reserve", "given with a limit of its own, or in a batch", "ask for one check by domain and descriptors, whose rules count responses")
	}
	if q.limit != nil {
		q.add().Cost = cost
	}
	for _, i := range q.withoutCost {
		q.req.Descriptors[i].Cost = cost
	}
	if atMost {
		return q.atMost()
	}
	return nil
}

// atMost makes the question ask for at most its cost. It returns a fault if the cost is 0, or if the
// descriptors have different costs.
func (q *question) atMost() *jsonbody.Fault {
	q.req.Op = stint.AskAtMost
	for i := range q.req.Descriptors {
		switch q.req.Descriptors[i].Cost {
		case 0:
			return jsonbody.Bad("at_most", "given with cost 0", "give the most units to take, or leave out at_most to look without taking")
		case q.req.Descriptors[0].Cost:
		default:
			return jsonbody.Bad("at_most", "given with several costs", "give all descriptors the same cost; they are charged the same number of units")
		}
	}
	return nil
}

// The shortest entry and the shortest descriptor in a list, in bytes.
const (
	leastEntry      = len(`{"key":"a","value":""},`)
	leastDescriptor = len(`{"entries":[]},`) + leastEntry - 1
)

// room allocates memory for the parts of a body at once, but never more than a valid body needs.
func (q *question) room(body []byte) {
	n := jsonbody.Objects(body)
	descriptors := min(n[3], limiter.MaxDescriptors, len(body)/leastDescriptor+1)
	q.req.Descriptors = slices.Grow(q.req.Descriptors, descriptors)
	q.withoutCost = slices.Grow(q.withoutCost, descriptors)
	q.entries = slices.Grow(q.entries, min(n[5], len(body)/leastEntry+1))
}

// check returns a fault if a request with these fields lacks one or has one too many.
func (q *question) check(seen uint64) *jsonbody.Fault {
	byRules, inline := seen&(hasDomain|hasDescriptors), seen&(hasKey|hasLimit)
	missing := func(field, hint string) *jsonbody.Fault { return jsonbody.Bad(field, "missing", hint) }
	empty := func(field, hint string) *jsonbody.Fault { return jsonbody.Bad(field, "empty", hint) }
	switch {
	case byRules != 0 && inline != 0:
		return jsonbody.Bad("", "a request by rules and one with its own limit at once",
			"give domain and descriptors, or key and limit")
	case byRules == 0 && inline == 0:
		return jsonbody.Bad("", "neither rules nor a limit to decide by",
			"give domain and descriptors, or key and limit")
	case inline != 0 && seen&hasKey == 0:
		return missing("key", "give the key of the bucket, such as user:42")
	case inline != 0 && seen&hasLimit == 0:
		return missing("limit", `give one such as {"requests": 5, "per": "1s"}, or ask by domain and descriptors`)
	case inline != 0 && q.key == "":
		return empty("key", "give the key of the bucket, such as user:42; unrelated clients would share an empty key")
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

// descriptors decodes the array descriptors.
func (q *question) descriptors(s *jsonbody.Scanner) *jsonbody.Fault {
	_, f := s.Array(func(i int) *jsonbody.Fault {
		if i >= limiter.MaxDescriptors {
			return jsonbody.BadAt(s.Pos, fmt.Sprintf("more than %d descriptors", limiter.MaxDescriptors), "send several requests")
		}
		return q.descriptor(s, i)
	})
	return f
}

// descriptor decodes one element of descriptors.
func (q *question) descriptor(s *jsonbody.Scanner, i int) *jsonbody.Fault {
	const (
		hasEntries = 1 << iota
		hasCost
	)
	d := q.add()
	seen, f := s.Object(descriptorFields, func(field int) (f *jsonbody.Fault) {
		switch 1 << field {
		case hasEntries:
			f = q.readEntries(s, d)
		case hasCost:
			d.Cost, f = s.Whole(costHint)
		}
		return f
	})
	switch {
	case f != nil:
		return f
	case seen&hasEntries == 0:
		return jsonbody.BadAt(s.Pos, "missing", "give at least one key and value").In("entries")
	case seen&hasCost == 0:
		q.withoutCost = append(q.withoutCost, i)
	}
	return nil
}

// add appends a descriptor.
func (q *question) add() *limiter.Descriptor {
	q.req.Descriptors = append(q.req.Descriptors, limiter.Descriptor{})
	return &q.req.Descriptors[len(q.req.Descriptors)-1]
}

// readEntries decodes the entries of a descriptor.
func (q *question) readEntries(s *jsonbody.Scanner, d *limiter.Descriptor) *jsonbody.Fault {
	const (
		hasKey = 1 << iota
		hasValue
	)
	from := len(q.entries)
	n, f := s.Array(func(i int) *jsonbody.Fault {
		if i >= limiter.MaxEntries {
			return jsonbody.BadAt(s.Pos, fmt.Sprintf("more than %d entries", limiter.MaxEntries), "no rule nests so deep; leave out what no rule names")
		}
		var key, value string
		seen, f := s.Object(entryFields, func(field int) (f *jsonbody.Fault) {
			switch 1 << field {
			case hasKey:
				key, f = s.TextUpTo(limiter.MaxKey)
			case hasValue:
				value, f = s.TextUpTo(limiter.MaxValue)
			}
			return f
		})
		switch {
		case f != nil:
			return f
		case seen&hasKey == 0:
			return jsonbody.BadAt(s.Pos, "missing", "name what the value is, such as user").In("key")
		case key == "":
			return jsonbody.BadAt(s.Pos, "empty", "name what the value is, such as user").In("key")
		case seen&hasValue == 0:
			return jsonbody.BadAt(s.Pos, "missing", `give the value, "" where there is none`).In("value")
		}
		q.entries = append(q.entries, rule.Entry{Key: key, Value: value})
		return nil
	})
	d.Entries = q.entries[from:len(q.entries):len(q.entries)]
	if f == nil && n == 0 {
		return jsonbody.BadAt(s.Pos, "empty", "give at least one key and value")
	}
	return f
}
