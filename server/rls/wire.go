package rls

import (
	"encoding/binary"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxNesting is how many levels of groups a request may have, as in most languages. It bounds the
// memory that skipping a group takes; protowire allows 10,000 levels, on the stack.
const maxNesting = 100

// reader reads the fields of a message one after another.
type reader struct {
	data []byte // remaining bytes
	bad  bool   // data, or a message inside it, is malformed
	field
}

// field is one field of a message: part is the value of a length-delimited field, value that of a
// varint. Fields of other types are skipped.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	part   []byte
}

// is reports whether the field has this number and type. A field with a known number and another
// type counts as unknown.
func (f *field) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

// next reads the next field. It returns false at the end and if the data is malformed.
func (r *reader) next() bool {
	if r.bad || len(r.data) == 0 {
		return false
	}
	var n int
	r.number, r.kind, n = protowire.ConsumeTag(r.data)
	if n < 0 || r.number > protowire.MaxValidNumber {
		r.bad = true
		return false
	}
	r.data = r.data[n:]
	switch r.kind {
	case protowire.VarintType:
		r.value, n = protowire.ConsumeVarint(r.data)
	case protowire.BytesType:
		r.part, n = protowire.ConsumeBytes(r.data)
	case protowire.StartGroupType:
		n = skipGroup(r.number, r.data)
	default:
		n = protowire.ConsumeFieldValue(r.number, r.kind, r.data)
	}
	if n < 0 {
		r.bad = true
		return false
	}
	r.data = r.data[n:]
	return true
}

// skipGroup returns the length of a group after its start tag. The length is negative if the group is
// malformed or has more than maxNesting levels.
func skipGroup(number protowire.Number, data []byte) int {
	open := append(make([]protowire.Number, 0, maxNesting), number)
	rest := data
	for len(open) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || number > protowire.MaxValidNumber {
			return -1
		}
		rest = rest[n:]
		switch last := len(open) - 1; {
		case kind == protowire.StartGroupType && len(open) < maxNesting:
			open = append(open, number)
		case kind == protowire.EndGroupType && number == open[last]:
			open = open[:last]
		case kind == protowire.StartGroupType || kind == protowire.EndGroupType:
			return -1
		default:
			if n = protowire.ConsumeFieldValue(number, kind, rest); n < 0 {
				return -1
			}
			rest = rest[n:]
		}
	}
	return len(data) - len(rest)
}

// view returns the bytes as a string, which is valid until the bytes are modified.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// tag returns the tag of a field. All fields of our messages have numbers below 16, whose tags take
// one byte. protowire.AppendTag, which supports all numbers, makes writing a response take 2.7
// times as long.
func tag(number protowire.Number, kind protowire.Type) byte {
	return byte(protowire.EncodeTag(number, kind))
}

// appendVarint appends a number field, or nothing for 0, which a missing field means.
func appendVarint(dst []byte, number protowire.Number, value uint64) []byte {
	if value == 0 {
		return dst
	}
	return binary.AppendUvarint(append(dst, tag(number, protowire.VarintType)), value)
}

// appendText appends a text field, or nothing for "".
func appendText[T string | []byte](dst []byte, number protowire.Number, text T) []byte {
	if len(text) == 0 {
		return dst
	}
	return appendBytes(dst, number, text)
}

// appendBytes appends a text field, even for "".
func appendBytes[T string | []byte](dst []byte, number protowire.Number, text T) []byte {
	dst = binary.AppendUvarint(append(dst, tag(number, protowire.BytesType)), uint64(len(text)))
	return append(dst, text...)
}

// open begins a message field. The caller appends the fields of the message and calls finish with
// the position that open returned.
func open(dst []byte, number protowire.Number) ([]byte, int) {
	dst = append(dst, tag(number, protowire.BytesType), 0)
	return dst, len(dst)
}

// finish ends the message that begins at from: it inserts the length before the message.
func finish(dst []byte, from int) []byte {
	length := uint64(len(dst) - from)
	if length < 0x80 {
		dst[from-1] = byte(length)
		return dst
	}
	n := protowire.SizeVarint(length)
	dst = append(dst, make([]byte, n-1)...)
	copy(dst[from+n-1:], dst[from:])
	binary.AppendUvarint(dst[:from-1], length)
	return dst
}
