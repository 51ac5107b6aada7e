package httpapi

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"stint/internal/envelope"
	"stint/internal/wording"
)

// scanner reads JSON (RFC 8259) from a body, strictly: names are compared exactly
// and stand once, strings are valid UTF-8 without lone surrogates, so that two
// different requests can never mean the same key.
//
// The strings it returns are parts of the body, unescaped where they stand: they
// live as long as the body is left alone, and the body is changed by reading it.
// That saves a copy of every string.
type scanner struct {
	data []byte
	pos  int
}

// space skips white space and returns the next byte, 0 at the end.
func (s *scanner) space() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// end refuses anything but white space after the value.
func (s *scanner) end() *envelope.Fault {
	if s.space(); s.pos < len(s.data) {
		return envelope.BadAt(s.pos, "something follows the JSON object", "send one object and nothing after it")
	}
	return nil
}

// object reads an object whose fields are among names, calls each with the index
// of every field to read its value, and returns which fields were there as bits.
func (s *scanner) object(names []string, each func(field int) *envelope.Fault) (uint64, *envelope.Fault) {
	if c := s.space(); c != '{' {
		return 0, s.mismatch("an object")
	}
	s.pos++
	if s.space() == '}' {
		s.pos++
		return 0, nil
	}
	var seen uint64
	for {
		field, f := s.name(names, seen)
		if f != nil {
			return seen, f
		}
		seen |= 1 << field
		if f := each(field); f != nil {
			return seen, f.In(names[field])
		}
		if more, f := s.next('}'); !more {
			return seen, f
		}
	}
}

// name reads the name of a field and its colon.
func (s *scanner) name(names []string, seen uint64) (int, *envelope.Fault) {
	if c := s.space(); c != '"' {
		return 0, s.unexpected("a field in double quotes")
	}
	start := s.pos
	name, f := s.text()
	if f != nil {
		return 0, f
	}
	field := -1
	for i, known := range names {
		if name == known {
			field = i
			break
		}
	}
	switch {
	case field < 0:
		return 0, envelope.BadAt(start, "unknown field "+wording.Quote(name), "known here are "+strings.Join(names, ", "))
	case seen&(1<<field) != 0:
		return 0, envelope.BadAt(start, "given twice", "give it once").In(names[field])
	case s.space() != ':':
		return 0, s.unexpected("a colon after the name of a field").In(names[field])
	}
	s.pos++
	return field, nil
}

// array reads an array and calls each for every element to read it.
func (s *scanner) array(each func(i int) *envelope.Fault) (int, *envelope.Fault) {
	if c := s.space(); c != '[' {
		return 0, s.mismatch("an array")
	}
	s.pos++
	if s.space() == ']' {
		s.pos++
		return 0, nil
	}
	for n := 0; ; {
		if f := each(n); f != nil {
			return n, f.InElement(n)
		}
		n++
		if more, f := s.next(']'); !more {
			return n, f
		}
	}
}

// next reads a comma, or the bracket that closes.
func (s *scanner) next(closing byte) (more bool, f *envelope.Fault) {
	switch s.space() {
	case ',':
		s.pos++
		return true, nil
	case closing:
		s.pos++
		return false, nil
	}
	return false, s.unexpected("a comma or " + strconv.QuoteRune(rune(closing)))
}

// text reads a string.
func (s *scanner) text() (string, *envelope.Fault) {
	if c := s.space(); c != '"' {
		return "", s.mismatch("a string")
	}
	s.pos++
	start := s.pos
	var high byte
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		high |= c
		switch {
		case c == '"':
			part := s.data[start:s.pos]
			s.pos++
			if high >= utf8.RuneSelf && !utf8.Valid(part) {
				return "", badUTF8(start)
			}
			return unsafe.String(unsafe.SliceData(part), len(part)), nil
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			return "", envelope.BadAt(s.pos, "a control character in a string", `write it as an escape, such as \n or \u0000`)
		}
		s.pos++
	}
	return "", s.unexpected("the end of a string")
}

// escaped reads the rest of a string from its first escape on, and moves what
// follows down over it. What an escape means is never longer than the escape.
func (s *scanner) escaped(start int) (string, *envelope.Fault) {
	to := s.pos
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			part := s.data[start:to]
			s.pos++
			if !utf8.Valid(part) {
				return "", badUTF8(start)
			}
			return unsafe.String(unsafe.SliceData(part), len(part)), nil
		case c == '\\':
			r, f := s.escape()
			if f != nil {
				return "", f
			}
			to += utf8.EncodeRune(s.data[to:s.pos], r)
		case c < ' ':
			return "", envelope.BadAt(s.pos, "a control character in a string", `write it as an escape, such as \n or \u0000`)
		default:
			s.data[to] = c
			to++
			s.pos++
		}
	}
	return "", s.unexpected("the end of a string")
}

func badUTF8(offset int) *envelope.Fault {
	return envelope.BadAt(offset, "a string is not valid UTF-8", "encode other bytes, for example in base64")
}

// escape reads one escape, a pair of surrogates as one.
func (s *scanner) escape() (rune, *envelope.Fault) {
	start := s.pos
	s.pos += 2
	if s.pos > len(s.data) {
		return 0, envelope.BadAt(start, "the body ends within an escape", "send the whole of it")
	}
	c := s.data[s.pos-1]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, envelope.BadAt(start, "unknown escape in a string", `JSON knows \" \\ \/ \b \f \n \r \t and \u with four hex digits`)
	}
	r, ok := s.hex()
	if ok && utf16.IsSurrogate(r) {
		var low rune
		if pair := s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u'; pair {
			s.pos += 2
			low, ok = s.hex()
		}
		if r = utf16.DecodeRune(r, low); ok && r == utf8.RuneError {
			return 0, envelope.BadAt(start, "half of a surrogate pair in a string", "write both halves, or the character itself")
		}
	}
	if !ok {
		return 0, envelope.BadAt(start, `\u without four hex digits`, "write it such as \\u00e9")
	}
	return r, nil
}

// hex reads four hex digits.
func (s *scanner) hex() (rune, bool) {
	if len(s.data)-s.pos < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s.data[s.pos : s.pos+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	s.pos += 4
	return r, true
}

// whole reads a whole number from 0 to 2^32-1. How it is written does not matter:
// 1000, 1e3 and 1000.0 are one number, as JSON Schema has it.
func (s *scanner) whole(hint string) (uint32, *envelope.Fault) {
	if c := s.space(); c != '-' && (c < '0' || c > '9') {
		return 0, s.mismatch("a number")
	}
	start := s.pos
	var n uint64
	for ; s.pos < len(s.data) && s.data[s.pos]-'0' <= 9; s.pos++ {
		if n < 1<<40 {
			n = n*10 + uint64(s.data[s.pos]-'0')
		}
	}
	plain := s.pos
	for s.pos < len(s.data) && strings.IndexByte("+-.eE0123456789", s.data[s.pos]) >= 0 {
		s.pos++
	}
	written := s.data[start:s.pos]
	ok := n < 1<<32 && (len(written) == 1 || written[0] != '0')
	if plain < s.pos {
		n, ok = wholeOf(view(written))
	}
	if !ok {
		shown := string(written[:min(len(written), 30)])
		return 0, envelope.BadAt(start, shown+" is not a whole number from 0 to 4294967295", hint)
	}
	return uint32(n), nil
}

// wholeOf returns the value of a JSON number that is not written in digits alone,
// exactly, and whether it is a number, whole, and from 0 to 2^32-1.
func wholeOf(text string) (uint64, bool) {
	text, negative := strings.CutPrefix(text, "-")
	mantissa, exponent, scaled := cutAny(text, "eE")
	digits, fraction, pointed := strings.Cut(mantissa, ".")
	if digits == "" || len(digits) > 1 && digits[0] == '0' || pointed && fraction == "" || !allDigits(digits+fraction) {
		return 0, false
	}
	scale := int64(0)
	if scaled {
		unsigned := exponent
		if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
			unsigned = exponent[1:]
		}
		if unsigned == "" || !allDigits(unsigned) {
			return 0, false
		}
		// A longer one is cut to the largest, which is too far for any body's digits.
		scale, _ = strconv.ParseInt(exponent, 10, 32)
	}
	scale -= int64(len(fraction))
	significant := strings.TrimLeft(digits+fraction, "0")
	if significant == "" {
		return 0, true
	}
	trimmed := strings.TrimRight(significant, "0")
	scale += int64(len(significant) - len(trimmed))
	if negative || scale < 0 || int64(len(trimmed))+scale > 10 {
		return 0, false
	}
	n, err := strconv.ParseUint(trimmed+strings.Repeat("0", int(scale)), 10, 32)
	return n, err == nil
}

// cutAny is strings.Cut at the first of some characters.
func cutAny(text, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(text, chars); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, "", false
}

func allDigits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// truth reads true or false.
func (s *scanner) truth() (bool, *envelope.Fault) {
	s.space()
	rest := s.data[s.pos:]
	switch {
	case strings.HasPrefix(view(rest), "true"):
		s.pos += len("true")
		return true, nil
	case strings.HasPrefix(view(rest), "false"):
		s.pos += len("false")
		return false, nil
	}
	return false, s.mismatch("true or false")
}

// mismatch reports a value of another type than the wanted.
func (s *scanner) mismatch(want string) *envelope.Fault {
	kind := ""
	switch c := s.space(); {
	case c == '{':
		kind = "an object"
	case c == '[':
		kind = "an array"
	case c == '"':
		kind = "a string"
	case c == 't', c == 'f':
		kind = "true or false"
	case c == 'n':
		kind = "null"
	case c == '-', '0' <= c && c <= '9':
		kind = "a number"
	default:
		return s.unexpected(want)
	}
	return envelope.BadAt(s.pos, kind+" where "+want+" belongs", "give "+want+", or leave it out where it may be left out")
}

// unexpected reports text that is no JSON.
func (s *scanner) unexpected(want string) *envelope.Fault {
	if s.pos >= len(s.data) {
		return envelope.BadAt(s.pos, "the body ends where "+want+" belongs", "send the whole of the JSON")
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return envelope.BadAt(s.pos, fmt.Sprintf("%q where %s belongs", r, want), "send JSON as RFC 8259 has it")
}

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
