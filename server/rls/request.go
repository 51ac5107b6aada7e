package rls

import (
	"stint/rule"
)

// message is a RateLimitRequest. It keeps its memory from one request to the next, and
// its strings are parts of the bytes that it was read from.
//
//	RateLimitRequest     1 domain string, 2 descriptors repeated, 3 hits_addend uint32
//	RateLimitDescriptor  1 entries repeated, 2 limit, 3 hits_addend UInt64Value, 4 is_negative_hits bool
//	Entry                1 key string, 2 value string
//	RateLimitOverride    1 requests_per_unit uint32, 2 unit enum, 3 unit_multiplier UInt32Value
type message struct {
	domain      string
	descriptors []descriptor
	hits        uint32
}

// descriptor is a RateLimitDescriptor.
type descriptor struct {
	entries  []rule.Entry
	override override
	hits     uint64
	limited  bool // override is there
	counted  bool // hits is there
	negative bool
}

// override is a RateLimitOverride.
type override struct {
	requests   uint32
	unit       int32
	multiplier uint32
	scaled     bool // multiplier is there
}

// reset empties the message for another one.
func (m *message) reset() {
	m.domain, m.descriptors, m.hits = "", m.descriptors[:0], 0
}

// add appends a descriptor, with the memory of the one that stood there before.
func (m *message) add() *descriptor {
	n := len(m.descriptors)
	if n < cap(m.descriptors) {
		m.descriptors = m.descriptors[:n+1]
	} else {
		m.descriptors = append(m.descriptors, descriptor{})
	}
	d := &m.descriptors[n]
	*d = descriptor{entries: d.entries[:0]}
	return d
}

// decode reads the message from data. Fields that it does not know are stepped over;
// as Protocol Buffers have it, of a field that is there twice the last one counts, and
// messages that are there twice are merged. Strings may be any bytes.
func (m *message) decode(data []byte) bool {
	m.reset()
	r := reader{data: data}
	for r.next() {
		switch {
		case r.is(1, bytesKind):
			m.domain = view(r.part)
		case r.is(2, bytesKind):
			r.bad = !m.add().decode(r.part)
		case r.is(3, varintKind):
			m.hits = uint32(r.value)
		}
	}
	return !r.bad
}

func (d *descriptor) decode(data []byte) bool {
	r := reader{data: data}
	for r.next() {
		switch {
		case r.is(1, bytesKind):
			d.entries = append(d.entries, rule.Entry{})
			r.bad = !decodeEntry(&d.entries[len(d.entries)-1], r.part)
		case r.is(2, bytesKind):
			d.limited = true
			r.bad = !d.override.decode(r.part)
		case r.is(3, bytesKind):
			d.counted = true
			r.bad = !decodeWrapped(&d.hits, r.part)
		case r.is(4, varintKind):
			d.negative = r.value != 0
		}
	}
	return !r.bad
}

func decodeEntry(e *rule.Entry, data []byte) bool {
	r := reader{data: data}
	for r.next() {
		switch {
		case r.is(1, bytesKind):
			e.Key = view(r.part)
		case r.is(2, bytesKind):
			e.Value = view(r.part)
		}
	}
	return !r.bad
}

func (o *override) decode(data []byte) bool {
	r := reader{data: data}
	for r.next() {
		switch {
		case r.is(1, varintKind):
			o.requests = uint32(r.value)
		case r.is(2, varintKind):
			o.unit = int32(r.value)
		case r.is(3, bytesKind):
			o.scaled = true
			n := uint64(o.multiplier)
			r.bad = !decodeWrapped(&n, r.part)
			o.multiplier = uint32(n)
		}
	}
	return !r.bad
}

// decodeWrapped reads a UInt64Value or a UInt32Value.
func decodeWrapped(n *uint64, data []byte) bool {
	r := reader{data: data}
	for r.next() {
		if r.is(1, varintKind) {
			*n = r.value
		}
	}
	return !r.bad
}
