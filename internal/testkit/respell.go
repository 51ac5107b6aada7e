package testkit

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"stint/internal/urlpath"
)

// RespellPath returns n spellings of a clean path, different from each other and from the path,
// that some options treat as equal. They are the same in every run.
func RespellPath(path string, n int, o urlpath.Options) []string {
	w := &writer{Rand: rand.New(rand.NewPCG(1, 2)), options: o}
	found, seen := make([]string, 0, n), map[string]bool{path: true}
	for len(found) < n {
		if s := w.path(path); !seen[s] {
			seen[s] = true
			found = append(found, s)
		}
	}
	return found
}

// writer writes one spelling after the other.
type writer struct {
	*rand.Rand
	options urlpath.Options
	often   int // something is done at this many of 8 places
}

// here reports whether to do something at this place.
func (w *writer) here() bool { return w.IntN(8) < w.often }

// one returns one of several texts.
func (w *writer) one(of ...string) string { return of[w.IntN(len(of))] }

// path writes the whole path.
func (w *writer) path(path string) string {
	w.often = 1 + w.IntN(3)
	var b strings.Builder
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		slash := w.slash()
		if i == 0 {
			slash = "/" // a request's target begins with a slash
		}
		b.WriteString(slash)
		for w.here() {
			b.WriteString(w.nothing())
		}
		b.WriteString(w.segment(s))
	}
	if w.options.TrailingSlash && w.here() {
		b.WriteString(w.slash())
	}
	if w.options.Endings && w.here() {
		b.WriteString(w.one("%00", "%00.jpg", "%00/x"))
	}
	return b.String()
}

// slash writes a separator of segments.
func (w *writer) slash() string {
	slashes := []string{"/"}
	if w.options.EscapedSlash {
		slashes = append(slashes, "%2F", "%2f")
	}
	if w.options.Backslash {
		slashes = append(slashes, `\`, "%5C", "%5c")
	}
	if w.options.Escapes && w.options.EscapedSlash {
		slashes = append(slashes, "%252F", "%25252f", "%c0%af", "%u002f", "%25%32%66")
	}
	if !w.here() {
		return "/"
	}
	return w.one(slashes...)
}

// nothing writes segments without an effect, with their closing slash.
func (w *writer) nothing() string {
	dot, name := w.dot(), w.one("x", "a%20b", "..."+"x", "%41", "old")
	switch w.IntN(4) {
	case 0:
		return "/"
	case 1:
		return dot + w.parameter() + w.slash()
	default:
		return name + w.parameter() + w.slash() + dot + w.dot() + w.parameter() + w.slash()
	}
}

// dot writes a dot.
func (w *writer) dot() string {
	if w.options.Escapes && w.here() {
		return w.one("%252e", "%u002E", "%C0%AE")
	}
	return w.one(".", ".", "%2e", "%2E")
}

// segment writes a segment.
func (w *writer) segment(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(w.letter(s[i]))
	}
	b.WriteString(w.parameter())
	if w.options.Endings && s != "" && w.here() {
		b.WriteString(w.one(".", "..", "%20", ".%20", "%0a", "%09."))
	}
	return b.String()
}

// parameter writes a parameter of a segment.
func (w *writer) parameter() string {
	if !w.options.Parameters || !w.here() {
		return ""
	}
	return w.one(";", ";v=1", ";jsessionid=0123", "%3Bx", ";.;..")
}

// letter writes one byte of a segment.
func (w *writer) letter(c byte) string {
	if w.options.Case && w.here() {
		c = strings.ToUpper(string(rune(c)))[0]
	}
	switch {
	case c == '%', !w.here():
		return string(rune(c))
	case w.options.Escapes && w.here():
		return w.one(fmt.Sprintf("%%25%02x", c), fmt.Sprintf("%%2525%02X", c), fmt.Sprintf("%%u00%02x", c))
	}
	return w.one(fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c))
}
