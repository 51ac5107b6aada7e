// Package query reads single parameters of raw URL queries, without a map of all.
package query

import (
	"net/url"
	"strings"
)

// First returns the first value of a parameter that net/url would also read: pairs
// with a semicolon or a broken escape are passed over.
func First(raw, name string) (value string, ok bool) {
	value, _, ok = next(raw, name)
	return value, ok
}

// All returns all values of a parameter that net/url would also read.
func All(raw, name string) (values []string) {
	for {
		value, rest, ok := next(raw, name)
		if !ok {
			return values
		}
		values, raw = append(values, value), rest
	}
}

// next returns the first value of a parameter and what stands behind it.
func next(raw, name string) (value, rest string, ok bool) {
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		key, value, _ := strings.Cut(pair, "=")
		if pair == "" || strings.Contains(pair, ";") {
			continue
		}
		if key, err := url.QueryUnescape(key); err != nil || key != name {
			continue
		}
		if value, err := url.QueryUnescape(value); err == nil {
			return value, raw, true
		}
	}
	return "", "", false
}
