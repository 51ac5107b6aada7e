package rls

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/limiter"
)

// jsonFields are the fields of a JSON object of Protocol Buffers. Each field has one or two names.
type jsonFields struct {
	names []string
	field []int // field number of each name
}

var (
	requestFields    = jsonFields{[]string{"domain", "descriptors", "hitsAddend", "hits_addend"}, []int{0, 1, 2, 2}}
	descriptorFields = jsonFields{
		[]string{"entries", "limit", "hitsAddend", "hits_addend", "isNegativeHits", "is_negative_hits"},
		[]int{0, 1, 2, 2, 3, 3},
	}
	entryFields    = jsonFields{[]string{"key", "value"}, []int{0, 1}}
	overrideFields = jsonFields{
		[]string{"requestsPerUnit", "requests_per_unit", "unit", "unitMultiplier", "unit_multiplier"},
		[]int{0, 0, 1, 2, 2},
	}
)

// read reads an object and calls each for every field. It skips a field whose value is null.
func (o *jsonFields) read(s *jsonbody.Scanner, each func(field int) *jsonbody.Fault) *jsonbody.Fault {
	seen := 0
	_, f := s.Object(o.names, func(name int) *jsonbody.Fault {
		field := o.field[name]
		if seen&(1<<field) != 0 {
			return jsonbody.BadAt(s.Pos, "given twice", "give it once")
		}
		seen |= 1 << field
		if s.Null() {
			return nil
		}
		return each(field)
	})
	return f
}

// decodeJSON decodes the JSON of Protocol Buffers: fields may have either of their names, numbers
// may be in quotes, and null means a missing field. It refuses unknown fields, duplicate fields and
// strings that are not UTF-8. It modifies body, and the strings of the message refer to it. It
// stops at the first limit that the request exceeds.
func (m *message) decodeJSON(body []byte) *jsonbody.Fault {
	m.reset()
	if len(body) > small {
		n := jsonbody.Objects(body)
		// With the buffer of the body, which may take 4 bytes per byte, this is 8.
		if err := m.room(sizes{descriptors: min(n[3], limiter.MaxDescriptors), entries: n[5]}, max(16<<10, 4*len(body))); err != nil {
			return fault(err)
		}
	}
	s := &jsonbody.Scanner{Data: body}
	f := requestFields.read(s, func(field int) (f *jsonbody.Fault) {
		switch field {
		case 0:
			m.domain, f = s.TextUpTo(limiter.MaxKey)
		case 1:
			_, f = s.Array(func(int) *jsonbody.Fault { return m.descriptorJSON(s) })
		case 2:
			m.hits, f = whole32(s)
		}
		return f
	})
	if f == nil {
		f = s.End()
	}
	return f
}

// fault converts a decoding error to the fault for an error envelope.
func fault(err error) *jsonbody.Fault {
	if err == nil {
		return nil
	}
	problem, hint, _ := strings.Cut(err.Error(), "; ")
	return jsonbody.Bad("", problem, hint)
}

func (m *message) descriptorJSON(s *jsonbody.Scanner) *jsonbody.Fault {
	if err := m.add(); err != nil {
		return fault(err)
	}
	return descriptorFields.read(s, func(field int) (f *jsonbody.Fault) {
		switch field {
		case 0:
			_, f = s.Array(func(int) *jsonbody.Fault { return m.entryJSON(s) })
		case 1:
			x := m.extraJSON(s)
			x.limited = true
			f = x.override.decodeJSON(s)
		case 2:
			x := m.extraJSON(s)
			x.counted = true
			x.hits, f = whole(s, math.MaxUint64)
		case 3:
			m.extraJSON(s).negative, f = s.Truth()
		}
		return f
	})
}

// extraJSON returns the extra of the last descriptor. It allocates room for all that may still
// follow.
func (m *message) extraJSON(s *jsonbody.Scanner) *extra {
	if len(m.extras) == cap(m.extras) && len(s.Data) > small {
		const shortest = len(`{"limit":{}},`)
		m.extras = slices.Grow(m.extras, 1+min((len(s.Data)-s.Pos)/shortest, cap(m.descriptors)-len(m.descriptors)))
	}
	return m.addExtra()
}

func (m *message) entryJSON(s *jsonbody.Scanner) *jsonbody.Fault {
	e, err := m.addEntry()
	if err != nil {
		return fault(err)
	}
	return entryFields.read(s, func(field int) (f *jsonbody.Fault) {
		if field == 0 {
			e.Key, f = s.TextUpTo(limiter.MaxKey)
		} else {
			e.Value, f = s.TextUpTo(limiter.MaxValue)
		}
		return f
	})
}

func (o *override) decodeJSON(s *jsonbody.Scanner) *jsonbody.Fault {
	return overrideFields.read(s, func(field int) (f *jsonbody.Fault) {
		switch field {
		case 0:
			o.requests, f = whole32(s)
		case 1:
			f = o.unitJSON(s)
		case 2:
			o.scaled = true
			o.multiplier, f = whole32(s)
		}
		return f
	})
}

// unitJSON reads a unit, given as a name or a number.
func (o *override) unitJSON(s *jsonbody.Scanner) *jsonbody.Fault {
	if s.Space() != '"' {
		n, f := whole(s, math.MaxInt32)
		o.unit = int32(n)
		return f
	}
	start := s.Pos
	name, f := s.Text()
	if f != nil {
		return f
	}
	for n, known := range units[:week] {
		if name == known.name {
			o.unit = int32(n)
			return nil
		}
	}
	return jsonbody.BadAt(start, "unit "+text.Quote(name)+" is not known", "use SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
}

func whole32(s *jsonbody.Scanner) (uint32, *jsonbody.Fault) {
	n, f := whole(s, math.MaxUint32)
	return uint32(n), f
}

// whole reads a whole number, with or without quotes, as 5, 5.0 or 5e0.
func whole(s *jsonbody.Scanner, most uint64) (uint64, *jsonbody.Fault) {
	quoted := s.Space() == '"'
	start := s.Pos
	var written string
	var f *jsonbody.Fault
	if quoted {
		written, f = s.TextUpTo(jsonbody.MaxNumber)
	} else {
		written, f = s.Number()
	}
	if f != nil {
		return 0, f
	}
	refuse := func(problem string) (uint64, *jsonbody.Fault) {
		return 0, jsonbody.BadAt(start, text.Quote(written)+problem, "write a whole number from 0 to "+strconv.FormatUint(most, 10))
	}
	if written == "" || written[0] != '-' && (written[0] < '0' || written[0] > '9') || !json.Valid(unsafe.Slice(unsafe.StringData(written), len(written))) {
		return refuse(" is not a number")
	}
	var n uint64
	var err error
	digits := strings.Trim(written, "0123456789") == "" // avoid an error of ParseUint, which allocates
	if digits {
		n, err = strconv.ParseUint(written, 10, 64)
	}
	if !digits || err != nil {
		number, wrong := strconv.ParseFloat(written, 64)
		if wrong != nil || number < 0 || number >= 1<<64 || number != math.Trunc(number) {
			return refuse(" is not a whole number from 0 to " + strconv.FormatUint(most, 10))
		}
		n = uint64(number)
	}
	if n > most {
		return refuse(" is above " + strconv.FormatUint(most, 10))
	}
	return n, nil
}
