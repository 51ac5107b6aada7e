package rls

import (
	"fmt"
	"slices"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"stint/limiter"
	"stint/rule"
)

// message is a RateLimitRequest. It reuses its memory, and its strings refer to the bytes that it
// was decoded from.
//
//	RateLimitRequest     1 domain string, 2 descriptors repeated, 3 hits_addend uint32
//	RateLimitDescriptor  1 entries repeated, 2 limit, 3 hits_addend UInt64Value, 4 is_negative_hits bool
//	Entry                1 key string, 2 value string
//	RateLimitOverride    1 requests_per_unit uint32, 2 unit enum, 3 unit_multiplier UInt32Value
//
// An empty descriptor is two bytes on the wire, and so is an empty entry. So descriptor and entry
// are small, and fields that few descriptors have are stored separately.
type message struct {
	domain      string
	descriptors []descriptor
	entries     []rule.Entry // entries of all descriptors, one after another
	extras      []extra
	hits        uint32
}

// descriptor is a RateLimitDescriptor.
type descriptor struct {
	end   uint32 // index after its last entry; its first entry follows those of the descriptor before
	extra uint32 // number of its extra, from 1; 0 for none
}

// extra has the fields that few descriptors have.
type extra struct {
	override override
	hits     uint64
	limited  bool // override is present
	counted  bool // hits is present
	negative bool
}

// override is a RateLimitOverride.
type override struct {
	requests   uint32
	unit       int32
	multiplier uint32
	scaled     bool // multiplier is present
}

// Errors for requests that exceed a limit.
var (
	errMalformed   = &Error{Code: invalidArgument, Message: "malformed request: these bytes are no RateLimitRequest; send one of envoy.service.ratelimit.v3"}
	errDescriptors = &Error{Code: invalidArgument, Message: fmt.Sprintf("more than %d descriptors; send several requests", limiter.MaxDescriptors)}
	errEntries     = &Error{Code: invalidArgument, Message: fmt.Sprintf("a descriptor has more than %d entries; no rule nests so deep, leave out what no rule names", limiter.MaxEntries)}
	errKey         = &Error{Code: invalidArgument, Message: fmt.Sprintf("a domain or a key has more than %d bytes; shorten it", limiter.MaxKey)}
	errValue       = &Error{Code: invalidArgument, Message: fmt.Sprintf("a value has more than %d bytes; shorten it", limiter.MaxValue)}
	errEmpty       = &Error{Code: invalidArgument, Message: "nearly all descriptors or entries are empty; leave the empty ones out"}
)

// The largest number of descriptors and entries whose memory is kept for the next request: some 64
// KiB with all that a decision needs for them.
const (
	keptDescriptors = 128
	keptEntries     = 512
)

// small is the size in bytes up to which a request is decoded without counting its parts first.
const small = 512

// keepsLittle reports whether the memory is small enough to keep for the next request.
func (m *message) keepsLittle() bool {
	return cap(m.descriptors) <= keptDescriptors && cap(m.entries) <= keptEntries
}

// reset empties the message.
func (m *message) reset() {
	m.domain, m.descriptors, m.hits = "", m.descriptors[:0], 0
	m.entries, m.extras = m.entries[:0], m.extras[:0]
}

// entriesOf returns the entries of a descriptor.
func (m *message) entriesOf(i int) []rule.Entry {
	from := uint32(0)
	if i > 0 {
		from = m.descriptors[i-1].end
	}
	end := m.descriptors[i].end
	return m.entries[from:end:end]
}

// noExtra is the extra of descriptors without one.
var noExtra extra

// extraOf returns the extra of a descriptor for reading.
func (m *message) extraOf(i int) *extra {
	if n := m.descriptors[i].extra; n > 0 {
		return &m.extras[n-1]
	}
	return &noExtra
}

// add appends a descriptor without entries.
func (m *message) add() error {
	if len(m.descriptors) == limiter.MaxDescriptors {
		return errDescriptors
	}
	m.descriptors = append(m.descriptors, descriptor{end: uint32(len(m.entries))})
	return nil
}

// addEntry appends an entry to the last descriptor.
func (m *message) addEntry() (*rule.Entry, error) {
	last := len(m.descriptors) - 1
	if len(m.entriesOf(last)) == limiter.MaxEntries {
		return nil, errEntries
	}
	m.entries = append(m.entries, rule.Entry{})
	m.descriptors[last].end++
	return &m.entries[len(m.entries)-1], nil
}

// addExtra returns the extra of the last descriptor for writing.
func (m *message) addExtra() *extra {
	d := &m.descriptors[len(m.descriptors)-1]
	if d.extra == 0 {
		m.extras = append(m.extras, extra{})
		d.extra = uint32(len(m.extras))
	}
	return &m.extras[d.extra-1]
}

// sizes are the numbers of parts in a request.
type sizes struct{ descriptors, entries, extras int }

// room allocates the memory for a request at once, because growing by append would cost several
// times as much. It refuses a request that needs more than most bytes.
func (m *message) room(n sizes, most int) error {
	cost := allocated(n.descriptors, unsafe.Sizeof(descriptor{})) +
		allocated(n.entries, unsafe.Sizeof(rule.Entry{})) + allocated(n.extras, unsafe.Sizeof(extra{}))
	if cost > most {
		return errEmpty
	}
	m.descriptors = slices.Grow(m.descriptors, n.descriptors)
	m.entries = slices.Grow(m.entries, n.entries)
	m.extras = slices.Grow(m.extras, n.extras)
	return nil
}

// allocated returns the most memory that n elements take; Go rounds it up by an eighth or to whole
// pages.
func allocated(n int, size uintptr) int {
	const page, large = 8 << 10, 32 << 10
	bytes := n * int(size)
	if bytes <= large {
		return bytes + bytes/8
	}
	return (bytes + page - 1) / page * page
}

// decode decodes the message from data. It skips unknown fields. As Protocol Buffers specify, the
// last of several equal fields counts, and repeated messages of one field are merged. Strings may
// have any bytes. It stops at the first limit that the request exceeds; the error is an [*Error].
func (m *message) decode(data []byte) error {
	m.reset()
	if len(data) > small {
		n, err := measure(data)
		if err == nil {
			// With the copy of the request that the transport made, this is 8 bytes per byte.
			err = m.room(n, max(28<<10, 7*len(data)))
		}
		if err != nil {
			return err
		}
	}
	r := reader{data: data}
	var err error
	for err == nil && r.next() {
		switch {
		case r.is(1, protowire.BytesType):
			m.domain = view(r.part)
			err = upTo(limiter.MaxKey, m.domain, errKey)
		case r.is(2, protowire.BytesType):
			err = m.decodeDescriptor(r.part)
		case r.is(3, protowire.VarintType):
			m.hits = uint32(r.value)
		}
	}
	return r.failure(err)
}

// measure counts the parts of a request and stops if there are too many.
func measure(data []byte) (n sizes, err error) {
	r := reader{data: data}
	for r.next() {
		if !r.is(2, protowire.BytesType) {
			continue
		}
		if n.descriptors++; n.descriptors > limiter.MaxDescriptors {
			return n, errDescriptors
		}
		d := reader{data: r.part}
		entries, more := 0, 0
		for d.next() {
			switch {
			case d.is(1, protowire.BytesType):
				if entries++; entries > limiter.MaxEntries {
					return n, errEntries
				}
			case d.is(2, protowire.BytesType), d.is(3, protowire.BytesType), d.is(4, protowire.VarintType):
				more = 1
			}
		}
		n.entries += entries
		n.extras += more
	}
	return n, nil // decode reports malformed data
}

// failure returns the error for data that could not be read; nil if all was read.
func (r *reader) failure(err error) error {
	if err == nil && r.bad {
		return errMalformed
	}
	return err
}

// upTo returns err if text is longer than most bytes.
func upTo(most int, text string, err *Error) error {
	if len(text) > most {
		return err
	}
	return nil
}

func (m *message) decodeDescriptor(data []byte) error {
	if err := m.add(); err != nil {
		return err
	}
	r := reader{data: data}
	var err error
	for err == nil && r.next() {
		switch {
		case r.is(1, protowire.BytesType):
			var e *rule.Entry
			if e, err = m.addEntry(); err == nil {
				err = decodeEntry(e, r.part)
			}
		case r.is(2, protowire.BytesType):
			x := m.addExtra()
			x.limited = true
			r.bad = !x.override.decode(r.part)
		case r.is(3, protowire.BytesType):
			x := m.addExtra()
			x.counted = true
			r.bad = !decodeWrapped(&x.hits, r.part)
		case r.is(4, protowire.VarintType):
			m.addExtra().negative = r.value != 0
		}
	}
	return r.failure(err)
}

func decodeEntry(e *rule.Entry, data []byte) error {
	r := reader{data: data}
	var err error
	for err == nil && r.next() {
		switch {
		case r.is(1, protowire.BytesType):
			e.Key = view(r.part)
			err = upTo(limiter.MaxKey, e.Key, errKey)
		case r.is(2, protowire.BytesType):
			e.Value = view(r.part)
			err = upTo(limiter.MaxValue, e.Value, errValue)
		}
	}
	return r.failure(err)
}

func (o *override) decode(data []byte) bool {
	r := reader{data: data}
	for r.next() {
		switch {
		case r.is(1, protowire.VarintType):
			o.requests = uint32(r.value)
		case r.is(2, protowire.VarintType):
			o.unit = int32(r.value)
		case r.is(3, protowire.BytesType):
			o.scaled = true
			n := uint64(o.multiplier)
			r.bad = !decodeWrapped(&n, r.part)
			o.multiplier = uint32(n)
		}
	}
	return !r.bad
}

// decodeWrapped decodes a UInt64Value or a UInt32Value.
func decodeWrapped(n *uint64, data []byte) bool {
	r := reader{data: data}
	for r.next() {
		if r.is(1, protowire.VarintType) {
			*n = r.value
		}
	}
	return !r.bad
}
