package rls

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// metadata is the dynamic metadata of one answer, as an object. envoyproxy/ratelimit sends all of
// it except `rule`, `degraded` and `over`:
//
//	domain       domain of the request
//	rule         the rule or list that denied, or the rule closest to its limit
//	descriptors  descriptors of the request: entries ("key=value"), limit, hitsAddend, and rule
//	hitsAddend   hits_addend of the request, unless 0
//	metadata     metadata of the rules of allowed descriptors, the first one first
//	degraded     true if a limit could not be asked and its failure policy answered
//	over         true if the request passed above a plain limit
type metadata struct {
	object map[string]any
}

// describe sets the metadata of an answer.
func (m *metadata) describe(c *Call) {
	list := make([]any, len(c.message.descriptors))
	merged := map[string]any{}
	for i := range c.message.descriptors {
		d := c.message.describe(i)
		if r := c.verdict.Results[i].Rule; r != nil {
			d["rule"] = r.Name
			if !c.response.statuses[i].over {
				merge(merged, r.Metadata)
			}
		}
		list[i] = d
	}
	m.object = map[string]any{"domain": c.message.domain, "descriptors": list}
	switch v := &c.verdict; {
	case v.Rule != nil:
		m.object["rule"] = v.Rule.Name
	case v.Listed != nil:
		m.object["rule"] = v.Listed.Name
	}
	if c.message.hits != 0 {
		m.object["hitsAddend"] = uint64(c.message.hits)
	}
	if len(merged) > 0 {
		m.object["metadata"] = merged
	}
	if c.verdict.Degraded {
		m.object["degraded"] = true
	}
	if c.verdict.Over {
		m.object["over"] = true
	}
}

// describe returns a descriptor as an object.
func (m *message) describe(descriptor int) map[string]any {
	d, list := m.extraOf(descriptor), m.entriesOf(descriptor)
	entries := make([]any, len(list))
	for i, e := range list {
		entries[i] = e.Key + "=" + e.Value
	}
	object := map[string]any{"entries": entries}
	if d.limited {
		object["limit"] = d.override.text()
	}
	if d.counted {
		object["hitsAddend"] = d.hits
	}
	if d.negative {
		object["isNegativeHits"] = true
	}
	return object
}

// text returns the override in the text format of Protocol Buffers.
func (o *override) text() string {
	var words []string
	if o.requests > 0 {
		words = append(words, "requests_per_unit:"+strconv.FormatUint(uint64(o.requests), 10))
	}
	words = append(words, "unit:"+units[o.unit].name)
	if o.scaled {
		words = append(words, "unit_multiplier:{value:"+strconv.FormatUint(uint64(o.multiplier), 10)+"}")
	}
	return strings.Join(words, " ")
}

// merge adds missing members to an object, recursively.
func merge(into, from map[string]any) {
	for word, value := range from {
		there, ok := into[word]
		if !ok {
			if object, is := value.(map[string]any); is {
				copied := map[string]any{}
				merge(copied, object)
				value = copied
			}
			into[word] = value
			continue
		}
		a, okA := there.(map[string]any)
		b, okB := value.(map[string]any)
		if okA && okB {
			merge(a, b)
		}
	}
}

// encode returns the metadata as an encoded Struct.
//
//	Struct     1 fields map<string, Value>
//	Value      1 null_value enum, 2 number_value double, 3 string_value, 4 bool_value, 5 struct_value, 6 list_value
//	ListValue  1 values repeated
func (m *metadata) encode() []byte { return appendStruct(nil, m.object) }

func appendStruct(dst []byte, object map[string]any) []byte {
	for _, word := range slices.Sorted(maps.Keys(object)) {
		var pair, value int
		dst, pair = open(dst, 1)
		dst = appendBytes(dst, 1, valid(word))
		dst, value = open(dst, 2)
		dst = finish(appendValue(dst, object[word]), value)
		dst = finish(dst, pair)
	}
	return dst
}

// valid returns text as valid UTF-8, which answers require even if the request had other bytes.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func appendValue(dst []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return appendBytes(dst, 3, valid(v))
	case bool:
		return append(dst, tag(4, protowire.VarintType), byte(protowire.EncodeBool(v)))
	case map[string]any:
		dst, from := open(dst, 5)
		return finish(appendStruct(dst, v), from)
	case []any:
		dst, list := open(dst, 6)
		for _, element := range v {
			var from int
			dst, from = open(dst, 1)
			dst = finish(appendValue(dst, element), from)
		}
		return finish(dst, list)
	}
	if n, ok := number(value); ok {
		return protowire.AppendFixed64(append(dst, tag(2, protowire.Fixed64Type)), math.Float64bits(n))
	}
	return append(dst, tag(1, protowire.VarintType), 0) // null
}

// number converts a number to the type that JSON uses.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
