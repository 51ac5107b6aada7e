package rls

import (
	"time"

	"stint"
	"stint/rule"
)

// The codes of an answer and of each status.
const (
	codeOK        = 1
	codeOverLimit = 2
)

// unit is a value of RateLimit.Unit.
type unit uint8

const (
	unknownUnit unit = 0
	second      unit = 1
	minute      unit = 2
	hour        unit = 3
	day         unit = 4
	month       unit = 5
	year        unit = 6
	week        unit = 7
)

// units are the units by number: the name in the protocol, the word in rule files, and the
// duration.
var units = [...]struct {
	name, word string
	per        time.Duration
}{
	unknownUnit: {name: "UNKNOWN"},
	second:      {"SECOND", "second", time.Second},
	minute:      {"MINUTE", "minute", time.Minute},
	hour:        {"HOUR", "hour", time.Hour},
	day:         {"DAY", "day", 24 * time.Hour},
	month:       {"MONTH", "month", 30 * 24 * time.Hour},
	year:        {"YEAR", "year", 365 * 24 * time.Hour},
	week:        {"WEEK", "week", 7 * 24 * time.Hour},
}

// periodUnits are the units used for a period that the rule file gives as a duration, the longest first.
var periodUnits = [...]unit{week, day, hour, minute, second}

// rlsResponse is a RateLimitResponse without header fields and metadata, which are encoded
// separately.
//
//	RateLimitResponse  1 overall_code enum, 2 statuses repeated, 3 response_headers_to_add repeated, 6 dynamic_metadata Struct
//	DescriptorStatus   1 code enum, 2 current_limit, 3 limit_remaining uint32, 4 duration_until_reset Duration, 5 quota
//	RateLimit          1 requests_per_unit uint32, 2 unit enum, 3 name string, 4 unit_multiplier UInt32Value
//	Quota              1 requests uint32, 2 valid_until Timestamp, 3 id string
//	HeaderValue        1 key string, 2 value string
type rlsResponse struct {
	over     bool
	statuses []status
}

// status is a DescriptorStatus.
type status struct {
	over      bool
	numbered  bool // limit and reset are present
	limit     shape
	remaining uint32
	reset     int64 // in seconds
	grant     grant
}

// shape is a RateLimit.
type shape struct {
	name       string
	requests   uint32
	unit       unit
	multiplier uint32 // 0 if missing
}

// grant is a Quota; none if requests is 0.
type grant struct {
	requests uint32
	until    stint.Instant
	id       string
}

// shapeOf returns the form of a rule's limit in answers. A period that is not a whole number of
// seconds has no unit.
func shapeOf(r *rule.Rule) shape {
	spec := r.Limit.Spec()
	s := shape{name: r.Given, requests: spec.Requests}
	if r.Unit == "" {
		s.unit, s.multiplier = period(spec.Per)
		return s
	}
	for u := second; u <= week; u++ {
		if units[u].word == r.Unit {
			s.unit = u
		}
	}
	return s
}

// period returns the largest unit that divides a period, and the quotient.
func period(per time.Duration) (unit, uint32) {
	for _, u := range periodUnits {
		if one := units[u].per; per >= one && per%one == 0 {
			if n := uint32(per / one); n > 1 {
				return u, n
			}
			return u, 0
		}
	}
	return unknownUnit, 0
}

func code(over bool) uint64 {
	if over {
		return codeOverLimit
	}
	return codeOK
}

// append appends the encoded status as field 2 of a response.
func (s *status) append(dst []byte) []byte {
	dst, whole := open(dst, 2)
	dst = appendVarint(dst, 1, code(s.over))
	var from int
	if s.numbered {
		dst, from = open(dst, 2)
		dst = appendVarint(dst, 1, uint64(s.limit.requests))
		dst = appendVarint(dst, 2, uint64(s.limit.unit))
		dst = appendText(dst, 3, s.limit.name)
		if s.limit.multiplier > 0 {
			var wrapped int
			dst, wrapped = open(dst, 4)
			dst = finish(appendVarint(dst, 1, uint64(s.limit.multiplier)), wrapped)
		}
		dst = finish(dst, from)
	}
	dst = appendVarint(dst, 3, uint64(s.remaining))
	if s.numbered {
		dst, from = open(dst, 4)
		dst = finish(appendVarint(dst, 1, uint64(s.reset)), from)
	}
	if s.grant.requests > 0 {
		dst = s.grant.append(dst)
	}
	return finish(dst, whole)
}

// append appends the encoded grant as field 5 of a status.
func (g *grant) append(dst []byte) []byte {
	dst, whole := open(dst, 5)
	dst = appendVarint(dst, 1, uint64(g.requests))
	dst = appendText(dst, 3, g.id)
	dst, from := open(dst, 2) // part of a oneof, which the generated types write last
	dst = appendVarint(dst, 1, uint64(g.until/1e6))
	dst = appendVarint(dst, 2, uint64(g.until%1e6*1e3))
	return finish(finish(dst, from), whole)
}

// append appends the response with header fields and metadata.
func (r *rlsResponse) append(dst []byte, fields *fields, metadata []byte) []byte {
	dst = appendVarint(dst, 1, code(r.over))
	for i := range r.statuses {
		dst = r.statuses[i].append(dst)
	}
	for name, value := range fields.all {
		var from int
		dst, from = open(dst, 3)
		dst = finish(appendText(appendText(dst, 1, name), 2, value), from)
	}
	return appendText(dst, 6, metadata)
}
