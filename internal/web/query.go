package web

import (
	"net/url"
	"strings"
)

// QueryValue returns the first value of a parameter that net/url would also read. It skips pairs
// with a semicolon or an invalid escape.
func QueryValue(raw, name string) (value string, ok bool) {
	value, _, ok = next(raw, name)
	return value, ok
}

// maxValues is the most values of a parameter that are read. An empty value takes two bytes in a
// query, but sixteen in a slice.
const maxValues = 100

// QueryValues returns the values of a parameter that net/url would also read, at most the first
// hundred.
func QueryValues(raw, name string) (values []string) {
	for len(values) < maxValues {
		value, rest, ok := next(raw, name)
		if !ok {
			return values
		}
		values, raw = append(values, value), rest
	}
	return values
}

// next returns the first value of a parameter and the query after it.
func next(raw, name string) (value, rest string, ok bool) {
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		key, value, _ := strings.Cut(pair, "=")
		if pair == "" || strings.Contains(pair, ";") {
			continue
		}
		if !spells(key, name) {
			continue
		}
		if value, err := url.QueryUnescape(value); err == nil {
			return value, raw, true
		}
	}
	return "", "", false
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
		if key == "" {
			return false
		}
		c, length := key[0], 1
		switch c {
		case '+':
			c = ' '
		case '%':
			if len(key) < 3 {
				return false
			}
			high, low := strings.IndexByte(digits, key[1]), strings.IndexByte(digits, key[2])
			if high < 0 || low < 0 {
				return false
			}
			c, length = values[high]<<4|values[low], 3
		}
		if c != name[i] {
			return false
		}
		key = key[length:]
	}
	return key == ""
}
