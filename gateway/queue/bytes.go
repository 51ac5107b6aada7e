package queue

import (
	"net/http"
	"slices"
	"unicode/utf8"
)

// bytesOf returns the fields of a header with a value that is not UTF-8, which JSON would change: all values of
// each such field. It returns nil for none.
func bytesOf(h http.Header) map[string][][]byte {
	var fields map[string][][]byte
	for name, values := range h {
		if !slices.ContainsFunc(values, notUTF8) {
			continue
		}
		if fields == nil {
			fields = map[string][][]byte{}
		}
		for _, value := range values {
			fields[name] = append(fields[name], []byte(value))
		}
	}
	return fields
}

// restore gives the fields of bytesOf back to a header.
func restore(h http.Header, fields map[string][][]byte) {
	for name, values := range fields {
		texts := make([]string, len(values))
		for i, value := range values {
			texts[i] = string(value)
		}
		h[name] = texts
	}
}

func notUTF8(text string) bool { return !utf8.ValidString(text) }
