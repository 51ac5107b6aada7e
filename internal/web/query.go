package web

import (
	"net/url"
	"strings"
)

// QueryValue returns the first value of a parameter that is not empty, and whether the query has the
// parameter. Values that net/url reads come first. If these are missing or empty, a value counts that
// other servers read, so that no spelling hides it: see QueryValues.
func QueryValue(raw, name string) (value string, ok bool) {
	for _, lenient := range []bool{false, true} {
		value, rest, found := next(raw, name, lenient)
		for found && value == "" {
			ok = true
			value, rest, found = next(rest, name, lenient)
		}
		if found {
			return value, true
		}
	}
	return "", ok
}

// maxValues is the most values of a parameter that are read. An empty value takes two bytes in a
// query, but sixteen in a slice.
const maxValues = 100

// QueryValues returns the values of a parameter in order, at most the first hundred. Beside those of
// net/url it returns values that net/url skips and other servers read: some take a semicolon as a
// separator, and many leave an invalid escape as it is.
func QueryValues(raw, name string) (values []string) {
	for len(values) < maxValues {
		value, rest, ok := next(raw, name, true)
		if !ok {
			return values
		}
		values, raw = append(values, value), rest
	}
	return values
}

// next returns the first value of a parameter and the query after it. If not lenient it skips what
// net/url skips: pairs with a semicolon or an invalid escape.
func next(raw, name string, lenient bool) (value, rest string, ok bool) {
	for raw != "" {
		var pair string
		pair, raw = cutPair(raw, lenient)
		key, value, _ := strings.Cut(pair, "=")
		if pair == "" || !lenient && strings.Contains(pair, ";") || !spells(key, name) {
			continue
		}
		plain, err := url.QueryUnescape(value)
		switch {
		case err == nil:
			return plain, raw, true
		case lenient:
			return unescape(value), raw, true
		}
	}
	return "", "", false
}

// cutPair returns the first pair of a query and the rest after it. With semicolons these separate pairs
// too.
func cutPair(raw string, semicolons bool) (pair, rest string) {
	end := strings.IndexByte(raw, '&')
	if end < 0 {
		end = len(raw)
	}
	if semicolons {
		if i := strings.IndexByte(raw[:end], ';'); i >= 0 {
			end = i
		}
	}
	return raw[:end], raw[min(end+1, len(raw)):]
}

// unescape decodes the escapes of a value, and leaves those that are invalid as they are.
func unescape(value string) string {
	plain := make([]byte, 0, len(value))
	for value != "" {
		c, length, ok := character(value)
		if !ok {
			c, length = value[0], 1
		}
		plain, value = append(plain, c), value[length:]
	}
	return string(plain)
}

// digits are hexadecimal digits, and values their numbers.
const (
	digits = "0123456789abcdefABCDEF"
	values = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x0a\x0b\x0c\x0d\x0e\x0f"
)

// spells reports whether a key of a query is name once its escapes are decoded. It makes no copy,
// because a query may have tens of thousands of keys.
func spells(key, name string) bool {
	for i := range len(name) {
		c, length, ok := character(key)
		if !ok || c != name[i] {
			return false
		}
		key = key[length:]
	}
	return key == ""
}

// character decodes the first character of a text of a query, and returns its length there. ok is false
// if there is none, or an invalid escape.
func character(text string) (c byte, length int, ok bool) {
	switch {
	case text == "":
		return 0, 0, false
	case text[0] == '+':
		return ' ', 1, true
	case text[0] != '%':
		return text[0], 1, true
	case len(text) < 3:
		return 0, 0, false
	}
	high, low := strings.IndexByte(digits, text[1]), strings.IndexByte(digits, text[2])
	if high < 0 || low < 0 {
		return 0, 0, false
	}
	return values[high]<<4 | values[low], 3, true
}
