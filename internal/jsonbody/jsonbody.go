// Package jsonbody reads the JSON bodies of requests strictly, and without copying their strings, and
// what else the handlers of collections read of requests (resource.go): query parameters, pages, entity
// tags, and media types of imports. It also writes the response to a refused request: a JSON object with the wrong field, the
// problem, and what to do.
//
//	{"error": {"code": "bad_request", "message": "...", "context": {"field": "descriptors[0].cost"}}}
package jsonbody

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"stint/internal/text"
)

// Scanner reads JSON (RFC 8259) from a body, strictly: it compares names exactly and refuses
// duplicates, and strings must be valid UTF-8 without lone surrogates, so that two different
// requests never mean the same key.
//
// The strings it returns are parts of the body, whose escapes it decodes in place. So reading
// changes the body, and the strings are valid while the body is unchanged. That saves a copy of
// every string.
type Scanner struct {
	Data []byte
	Pos  int // index of the next byte to read
}

// Depths is the deepest level that Objects counts.
const Depths = 5

// Objects returns how many objects begin at each depth of a body that was not read yet: n[1] is the
// body itself, n[3] counts objects in an array in it. Callers use these numbers to allocate their
// slices once, because slices that grow by append cost several times their size. If the body is no
// JSON the numbers may be wrong.
func Objects(body []byte) (n [Depths + 1]int) {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		c := body[i]
		if quoted {
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
			continue
		}
		switch c {
		case '"':
			quoted = true
		case '{', '[':
			if depth++; c == '{' && depth <= Depths {
				n[depth]++
			}
		case '}', ']':
			depth--
		}
		if depth < 0 {
			return n
		}
	}
	return n
}

// Space skips white space and returns the next byte, 0 at the end.
func (s *Scanner) Space() byte {
	for s.Pos < len(s.Data) {
		switch c := s.Data[s.Pos]; c {
		case ' ', '\t', '\r', '\n':
			s.Pos++
		default:
			return c
		}
	}
	return 0
}

// End returns a fault unless only white space follows.
func (s *Scanner) End() *Fault {
	if s.Space(); s.Pos < len(s.Data) {
		return BadAt(s.Pos, "something follows the JSON object", "send one object and nothing after it")
	}
	return nil
}

// Object reads an object whose fields must be among names. It calls each with the index of every
// field, to read the value, and returns as bits which fields were present.
func (s *Scanner) Object(names []string, each func(field int) *Fault) (uint64, *Fault) {
	if c := s.Space(); c != '{' {
		return 0, s.Mismatch("an object")
	}
	s.Pos++
	if s.Space() == '}' {
		s.Pos++
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
func (s *Scanner) name(names []string, seen uint64) (int, *Fault) {
	if c := s.Space(); c != '"' {
		return 0, s.unexpected("a field in double quotes")
	}
	start := s.Pos
	name, f := s.Text()
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
		return 0, BadAt(start, "unknown field "+text.Quote(name), "known here are "+strings.Join(names, ", "))
	case seen&(1<<field) != 0:
		return 0, BadAt(start, "given twice", "give it once").In(names[field])
	case s.Space() != ':':
		return 0, s.unexpected("a colon after the name of a field").In(names[field])
	}
	s.Pos++
	return field, nil
}

// Array reads an array, and calls each to read every element.
func (s *Scanner) Array(each func(i int) *Fault) (int, *Fault) {
	if c := s.Space(); c != '[' {
		return 0, s.Mismatch("an array")
	}
	s.Pos++
	if s.Space() == ']' {
		s.Pos++
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

// next reads a comma or the closing bracket.
func (s *Scanner) next(closing byte) (more bool, f *Fault) {
	switch s.Space() {
	case ',':
		s.Pos++
		return true, nil
	case closing:
		s.Pos++
		return false, nil
	}
	return false, s.unexpected("a comma or " + strconv.QuoteRune(rune(closing)))
}

// Text reads a string.
func (s *Scanner) Text() (string, *Fault) {
	if c := s.Space(); c != '"' {
		return "", s.Mismatch("a string")
	}
	s.Pos++
	start := s.Pos
	var high byte
	for s.Pos < len(s.Data) {
		c := s.Data[s.Pos]
		high |= c
		switch {
		case c == '"':
			part := s.Data[start:s.Pos]
			s.Pos++
			if high >= utf8.RuneSelf && !utf8.Valid(part) {
				return "", badUTF8(start)
			}
			return unsafe.String(unsafe.SliceData(part), len(part)), nil
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			return "", BadAt(s.Pos, "a control character in a string", `write it as an escape, such as \n or \u0000`)
		}
		s.Pos++
	}
	return "", s.unexpected("the end of a string")
}

// TextUpTo reads a string of at most most bytes.
func (s *Scanner) TextUpTo(most int) (string, *Fault) {
	s.Space()
	start := s.Pos
	text, f := s.Text()
	if f == nil && len(text) > most {
		return "", BadAt(start, fmt.Sprintf("%d bytes are too long", len(text)), fmt.Sprintf("send at most %d", most))
	}
	return text, f
}

// maxDuration is the most bytes of a duration.
const maxDuration = 100

// Duration decodes a duration of any sign, such as "5s", and returns its text too.
func (s *Scanner) Duration(hint string) (d time.Duration, written string, f *Fault) {
	start := s.Pos
	if written, f = s.TextUpTo(maxDuration); f != nil {
		return 0, written, f
	}
	d, err := text.ParseDuration(written)
	if err != nil {
		return 0, written, BadAt(start, text.Quote(written)+": "+err.Error(), hint)
	}
	return d, written, nil
}

// Null reads null if it comes next, and reports whether it did.
func (s *Scanner) Null() bool {
	s.Space()
	if !strings.HasPrefix(view(s.Data[s.Pos:]), "null") {
		return false
	}
	s.Pos += len("null")
	return true
}

// MaxNumber is the longest text of a number.
const MaxNumber = 400

// Number reads the text of a number without checking it. No other JSON value begins with the same
// bytes.
func (s *Scanner) Number() (string, *Fault) {
	if c := s.Space(); c != '-' && (c < '0' || c > '9') {
		return "", s.Mismatch("a number")
	}
	start := s.Pos
	for s.Pos < len(s.Data) && strings.IndexByte("+-.eE0123456789", s.Data[s.Pos]) >= 0 {
		s.Pos++
	}
	if s.Pos-start > MaxNumber {
		return "", BadAt(start, fmt.Sprintf("a number of %d characters", s.Pos-start), fmt.Sprintf("write at most %d", MaxNumber))
	}
	return view(s.Data[start:s.Pos]), nil
}

// escaped reads the rest of a string from its first escape on, and moves the text down over the
// escapes. A decoded escape is never longer than its text.
func (s *Scanner) escaped(start int) (string, *Fault) {
	to := s.Pos
	for s.Pos < len(s.Data) {
		c := s.Data[s.Pos]
		switch {
		case c == '"':
			part := s.Data[start:to]
			s.Pos++
			if !utf8.Valid(part) {
				return "", badUTF8(start)
			}
			return unsafe.String(unsafe.SliceData(part), len(part)), nil
		case c == '\\':
			r, f := s.escape()
			if f != nil {
				return "", f
			}
			to += utf8.EncodeRune(s.Data[to:s.Pos], r)
		case c < ' ':
			return "", BadAt(s.Pos, "a control character in a string", `write it as an escape, such as \n or \u0000`)
		default:
			s.Data[to] = c
			to++
			s.Pos++
		}
	}
	return "", s.unexpected("the end of a string")
}

func badUTF8(offset int) *Fault {
	return BadAt(offset, "a string is not valid UTF-8", "encode other bytes, for example in base64")
}

// escape reads one escape, a pair of surrogates as one.
func (s *Scanner) escape() (rune, *Fault) {
	start := s.Pos
	s.Pos += 2
	if s.Pos > len(s.Data) {
		return 0, BadAt(start, "the body ends within an escape", "send the whole of it")
	}
	c := s.Data[s.Pos-1]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, BadAt(start, "unknown escape in a string", `JSON knows \" \\ \/ \b \f \n \r \t and \u with four hex digits`)
	}
	r, ok := s.hex()
	if ok && utf16.IsSurrogate(r) {
		var low rune
		if pair := s.Pos+1 < len(s.Data) && s.Data[s.Pos] == '\\' && s.Data[s.Pos+1] == 'u'; pair {
			s.Pos += 2
			low, ok = s.hex()
		}
		if r = utf16.DecodeRune(r, low); ok && r == utf8.RuneError {
			return 0, BadAt(start, "half of a surrogate pair in a string", "write both halves, or the character itself")
		}
	}
	if !ok {
		return 0, BadAt(start, `\u without four hex digits`, "write it such as \\u00e9")
	}
	return r, nil
}

// hex reads four hex digits.
func (s *Scanner) hex() (rune, bool) {
	if len(s.Data)-s.Pos < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s.Data[s.Pos : s.Pos+4] {
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
	s.Pos += 4
	return r, true
}

// Whole reads a whole number from 0 to 2^32-1. All spellings are allowed: 1000, 1e3 and 1000.0 are
// one number, as in JSON Schema.
func (s *Scanner) Whole(hint string) (uint32, *Fault) {
	s.Space()
	start := s.Pos
	written, f := s.Number()
	if f != nil {
		return 0, f
	}
	n, plain := uint64(0), 0
	for ; plain < len(written) && written[plain]-'0' <= 9; plain++ {
		if n < 1<<40 {
			n = n*10 + uint64(written[plain]-'0')
		}
	}
	ok := n < 1<<32 && (len(written) == 1 || written[0] != '0')
	if plain < len(written) {
		n, ok = wholeOf(written)
	}
	if !ok {
		shown := strings.Clone(written[:min(len(written), 30)])
		return 0, BadAt(start, shown+" is not a whole number from 0 to 4294967295", hint)
	}
	return uint32(n), nil
}

// wholeOf returns the exact value of a JSON number that is not only digits. ok is false unless it
// is a whole number from 0 to 2^32-1.
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
		// ParseInt cuts a larger one to the largest int32, which is more than the digits of any
		// body.
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

// Truth reads true or false.
func (s *Scanner) Truth() (bool, *Fault) {
	s.Space()
	rest := s.Data[s.Pos:]
	switch {
	case strings.HasPrefix(view(rest), "true"):
		s.Pos += len("true")
		return true, nil
	case strings.HasPrefix(view(rest), "false"):
		s.Pos += len("false")
		return false, nil
	}
	return false, s.Mismatch("true or false")
}

// Mismatch returns a fault for a value of the wrong type.
func (s *Scanner) Mismatch(want string) *Fault {
	kind := ""
	switch c := s.Space(); {
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
	return BadAt(s.Pos, kind+" where "+want+" belongs", "give "+want+", or leave it out where it may be left out")
}

// unexpected returns a fault for text that is no JSON.
func (s *Scanner) unexpected(want string) *Fault {
	if s.Pos >= len(s.Data) {
		return BadAt(s.Pos, "the body ends where "+want+" belongs", "send the whole of the JSON")
	}
	r, _ := utf8.DecodeRune(s.Data[s.Pos:])
	return BadAt(s.Pos, fmt.Sprintf("%q where %s belongs", r, want), "send JSON as RFC 8259 has it")
}

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
