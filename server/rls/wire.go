package rls

import (
	"encoding/binary"
	"unsafe"
)

// What of Protocol Buffers the messages of this package need. A field is a tag,
// number<<3 | kind, and a value of that kind.

// The kinds of values.
const (
	varintKind  = 0
	fixed64Kind = 1
	bytesKind   = 2
	groupKind   = 3
	endKind     = 4
	fixed32Kind = 5
)

// maxNumber is the largest number of a field.
const maxNumber = 1<<29 - 1

// maxNesting is how deep groups may stand in each other, as Protocol Buffers have it in
// most languages. Nobody has written groups for long, but what is unknown has to be
// stepped over, and each level takes stack.
const maxNesting = 100

// reader reads the fields of a message one after another.
type reader struct {
	data []byte // what is not read yet
	bad  bool   // data is malformed, or that of a message within is
	field
}

// field is one field of a message as it was read: part is the value of bytes, value
// that of a varint. Values of other kinds are not kept.
type field struct {
	number int
	kind   uint8
	value  uint64
	part   []byte
}

// is says whether the field has that number and kind. One of the right number and
// another kind is an unknown one.
func (f *field) is(number int, kind uint8) bool { return f.number == number && f.kind == kind }

// next reads the next field; false: there is none, or data is malformed.
func (r *reader) next() bool {
	if r.bad || len(r.data) == 0 {
		return false
	}
	tag, n := uvarint(r.data)
	if n <= 0 || tag>>3 == 0 || tag>>3 > maxNumber {
		r.bad = true
		return false
	}
	r.number, r.kind = int(tag>>3), uint8(tag&7)
	var ok bool
	r.data, ok = r.read(r.data[n:], 0)
	r.bad = !ok
	return ok
}

// read reads the value of a field whose tag was read.
func (f *field) read(data []byte, depth int) (rest []byte, ok bool) {
	switch f.kind {
	case varintKind:
		value, n := uvarint(data)
		if n <= 0 {
			return nil, false
		}
		f.value = value
		return data[n:], true
	case bytesKind:
		length, n := uvarint(data)
		if n <= 0 || length > uint64(len(data)-n) {
			return nil, false
		}
		f.part = data[n : n+int(length)]
		return data[n+int(length):], true
	case fixed64Kind:
		return cut(data, 8)
	case fixed32Kind:
		return cut(data, 4)
	case groupKind:
		return skipGroup(data, f.number, depth+1)
	}
	return nil, false
}

// skipGroup steps over the fields of a group up to its end.
func skipGroup(data []byte, number, depth int) (rest []byte, ok bool) {
	for depth <= maxNesting {
		tag, n := uvarint(data)
		if n <= 0 || tag>>3 == 0 || tag>>3 > maxNumber {
			return nil, false
		}
		f := field{number: int(tag >> 3), kind: uint8(tag & 7)}
		if data = data[n:]; f.kind == endKind {
			return data, f.number == number
		}
		if data, ok = f.read(data, depth); !ok {
			return nil, false
		}
	}
	return nil, false
}

// cut returns data without its first n bytes.
func cut(data []byte, n int) ([]byte, bool) {
	if len(data) < n {
		return nil, false
	}
	return data[n:], true
}

// uvarint is binary.Uvarint, quick where the number is small.
func uvarint(data []byte) (uint64, int) {
	if len(data) > 0 && data[0] < 0x80 {
		return uint64(data[0]), 1
	}
	return binary.Uvarint(data)
}

// view is the bytes as a string, good for as long as nobody changes them.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// appendVarint appends a field with a number; 0 is what a field that is not there
// means, so nothing is appended.
func appendVarint(dst []byte, number int, value uint64) []byte {
	if value == 0 {
		return dst
	}
	return binary.AppendUvarint(append(dst, byte(number<<3|varintKind)), value)
}

// appendText appends a field with text, nothing for "".
func appendText[T string | []byte](dst []byte, number int, text T) []byte {
	if len(text) == 0 {
		return dst
	}
	return appendBytes(dst, number, text)
}

// appendBytes appends a field with text, also where that is "".
func appendBytes[T string | []byte](dst []byte, number int, text T) []byte {
	dst = binary.AppendUvarint(append(dst, byte(number<<3|bytesKind)), uint64(len(text)))
	return append(dst, text...)
}

// open begins a field that holds a message, whose fields are appended next. It returns
// where the message will start, for close.
func open(dst []byte, number int) ([]byte, int) {
	dst = append(dst, byte(number<<3|bytesKind), 0)
	return dst, len(dst)
}

// finish ends the message that starts at from: its length is put before it.
func finish(dst []byte, from int) []byte {
	length := uint64(len(dst) - from)
	if length < 0x80 {
		dst[from-1] = byte(length)
		return dst
	}
	var prefix [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(prefix[:], length)
	dst = append(dst, prefix[:n-1]...) // room, overwritten at once
	copy(dst[from+n-1:], dst[from:])
	copy(dst[from-1:], prefix[:n])
	return dst
}
