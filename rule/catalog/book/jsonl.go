package book

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"stint/internal/text"
	"stint/rule"
	"stint/rule/catalog"
)

// maxLine is the maximum length of a line in a JSON Lines file, in bytes.
const maxLine = 64 << 10

// ReadOne parses one rule, a JSON object as in a line of a JSON Lines file. A missing id is set to
// id. ReadOne does not check the values. The error is a [*rule.Error] without a place.
func ReadOne(data []byte, id string) (catalog.Rule, error) {
	r := catalog.Rule{ID: id}
	if problem, hint := object(string(data), &r); problem != "" {
		return r, &rule.Error{Problem: problem, Hint: hint}
	}
	return r, nil
}

// readLines reads a JSON Lines file.
func readLines(c *collector, r io.Reader) error {
	in, err := openText(c, r)
	if in == nil {
		return err
	}
	for line := 1; ; line++ {
		data, whole, err := nextLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		end := err != nil
		switch data = bytes.TrimSpace(data); {
		case !whole:
			c.fail(line, fmt.Sprintf("a line of more than %d bytes", maxLine), "write one rule, an object, in each line")
		case len(data) == 0:
		default:
			var r catalog.Rule
			if problem, hint := object(string(data), &r); problem != "" {
				c.fail(line, problem, hint)
			} else if err := c.rule(line, r); err != nil {
				return err
			}
		}
		if end || c.enough() {
			return nil
		}
	}
}

// nextLine reads a line, which is valid until the next call. If the line is too long it is skipped,
// and whole is false.
func nextLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	line, err = in.ReadSlice('\n')
	whole = true
	for errors.Is(err, bufio.ErrBufferFull) {
		whole = false
		_, err = in.ReadSlice('\n')
	}
	return line, whole, err
}

// lineScanner parses one JSON object of texts and numbers.
type lineScanner struct {
	text string
	pos  int
}

// object parses an object into r. problem is "" on success.
func object(text string, r *catalog.Rule) (problem, hint string) {
	if !utf8.ValidString(text) {
		return "not UTF-8", "save the file as UTF-8"
	}
	s := lineScanner{text: text}
	if !s.is('{') {
		return "not a JSON object", `write {"id": "7", "uid": "all", "url": "/v1/orders/{id}", "time": "minute", "requests": 5}`
	}
	var has [fields]bool
	for first := true; !s.is('}'); first = false {
		if !first && !s.is(',') {
			return s.unexpected("a comma or }")
		}
		field, problem, hint := s.member(&has)
		if problem != "" {
			return problem, hint
		}
		if problem, hint = s.value(field, r); problem != "" {
			return problem, hint
		}
	}
	if s.space(); s.pos < len(s.text) {
		return "something follows the object", "write one object in each line and nothing after it"
	}
	for _, field := range [...]int{id, url} {
		if !has[field] && (field != id || r.ID == "") {
			return "no " + names[field], "a rule has at least " + requiredNames()
		}
	}
	return needed(r, has[requests])
}

// member parses the name of a field and the colon.
func (s *lineScanner) member(has *[fields]bool) (field int, problem, hint string) {
	name, ok := s.string()
	if !ok {
		problem, hint = s.unexpected("a name in double quotes")
		return 0, problem, hint
	}
	for field = range fields {
		if names[field] == name {
			break
		}
	}
	switch {
	case names[field] != name:
		problem, hint = unknown("field", name)
	case has[field]:
		problem, hint = name+" is set twice", "keep one of the two"
	case !s.is(':'):
		problem, hint = s.unexpected("a colon after " + name)
	}
	has[field] = true
	return field, problem, hint
}

// value parses the value of a field: a text, or a number if the field requires one. An id may be a
// number too.
func (s *lineScanner) value(field int, r *catalog.Rule) (problem, hint string) {
	s.space()
	start := s.pos
	isNumber := field == requests || field == burst
	if value, ok := s.string(); ok {
		if isNumber {
			return names[field] + ": a text instead of a number", "write it without quotes"
		}
		return set(r, field, value)
	}
	for s.pos < len(s.text) && strings.IndexByte("+-.0123456789eE", s.text[s.pos]) >= 0 {
		s.pos++
	}
	value := s.text[start:s.pos]
	switch {
	case value == "" && isNumber:
		problem, hint = s.unexpected("a number")
	case value == "" || !isNumber && field != id:
		s.pos = start
		problem, hint = s.unexpected("a text in double quotes")
	case len(value) > 1 && value[0] == '0' && value[1] >= '0' && value[1] <= '9':
		return names[field] + ": " + text.Quote(value) + " begins with a zero", "write the number without it"
	case field == id:
		if _, problem, hint = number(id, value); problem == "" {
			r.ID = value
		}
		return problem, hint
	default:
		return set(r, field, whole(value))
	}
	return names[field] + ": " + problem, hint
}

// whole returns the digits of a whole number in another notation, such as 1e3.
func whole(number string) string {
	if !strings.ContainsAny(number, ".eE") {
		return number
	}
	const exact = 1 << 53
	if f, err := strconv.ParseFloat(number, 64); err == nil && f >= 0 && f <= exact && f == math.Trunc(f) && json.Valid([]byte(number)) {
		return strconv.FormatUint(uint64(f), 10)
	}
	return number
}

// string parses a string.
func (s *lineScanner) string() (string, bool) {
	s.space()
	rest := s.text[s.pos:]
	if rest == "" || rest[0] != '"' {
		return "", false
	}
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			s.pos += i + 1
			return rest[1:i], true
		case c < ' ':
			return "", false
		case c == '\\':
			return s.escaped(i)
		}
	}
	return "", false
}

// escaped parses a string whose first escape is at a position of the remaining text.
func (s *lineScanner) escaped(from int) (string, bool) {
	rest := s.text[s.pos:]
	for i := from; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			var value string
			if json.Unmarshal([]byte(rest[:i+1]), &value) != nil || strings.ContainsRune(value, utf8.RuneError) {
				return "", false // such as half a surrogate pair
			}
			s.pos += i + 1
			return value, true
		}
	}
	return "", false
}

// is skips c if it is the next character, and reports whether it was.
func (s *lineScanner) is(c byte) bool {
	if s.space(); s.pos == len(s.text) || s.text[s.pos] != c {
		return false
	}
	s.pos++
	return true
}

func (s *lineScanner) space() {
	for s.pos < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// unexpected returns the fault that want was expected here.
func (s *lineScanner) unexpected(want string) (problem, hint string) {
	if s.space(); s.pos == len(s.text) {
		return "the object ends before it is whole, expected " + want, "write one whole object in each line"
	}
	return "expected " + want + ", found " + text.Quote(s.text[s.pos:min(len(s.text), s.pos+20)]), "write one JSON object in each line"
}
