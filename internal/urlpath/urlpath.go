// Package urlpath brings the spellings of a URL's path together, so that a request
// cannot reach the same place of a server under another name. Routes finds the
// pattern that a method and a path belong to, with the patterns of net/http's ServeMux.
package urlpath

import (
	"bytes"
	"strings"
)

// Options say which spellings a server takes for one beyond those that every server
// does. The zero Options suit servers that follow RFC 3986, which all of Go's, nginx,
// Envoy and Caddy do while they pass on what they were sent. Each option that is set
// makes paths equal that other servers would keep apart, which makes a limit
// stricter; one that is missing lets a client choose among several buckets.
type Options struct {
	// Case takes capital letters for small ones: IIS, Express, and most file servers
	// on Windows and macOS.
	Case bool

	// TrailingSlash leaves out a slash at the end: Express, Django behind a redirect,
	// Rails, Laravel.
	TrailingSlash bool

	// EscapedSlash takes %2F for a slash, and resolves dot segments after that: nginx
	// with a path in proxy_pass, Envoy that unescapes slashes, routers that match what
	// is decoded (gin, gorilla/mux, httprouter), most of PHP, Python and Ruby.
	EscapedSlash bool

	// Backslash takes \ and %5C for a slash: IIS, Envoy that normalizes paths.
	Backslash bool

	// Escapes decodes what is escaped more than once (%252F), overlong UTF-8 (%C0%AF)
	// and IIS's %u002F: chains of servers of which each decodes.
	Escapes bool

	// Parameters leaves out what follows a semicolon in a segment: Tomcat, Jetty,
	// Spring.
	Parameters bool

	// Endings leaves out dots, spaces and control characters at the end of a segment,
	// and all that follows a NUL or a #: Windows, and programs whose texts end at a NUL.
	Endings bool

	// DotsFirst resolves dot segments before empty ones are left out, so that
	// /a//../b is /a/b: Node's and browsers' URL, and Envoy that normalizes paths.
	DotsFirst bool
}

// All sets every option.
var All = Options{
	Case: true, TrailingSlash: true, EscapedSlash: true, Backslash: true,
	Escapes: true, Parameters: true, Endings: true, DotsFirst: true,
}

// Unclear says whether options other than Case and TrailingSlash may tell two paths
// from the one that was sent.
func Unclear(path string) bool {
	for i := range len(path) {
		switch kinds[path[i]] {
		case escaped, backslash, semicolon:
			return true
		case stop:
			if i+1 == len(path) && path[i] == '.' || i+1 < len(path) && kinds[path[i+1]] == stop {
				return true
			}
		}
	}
	return false
}

// Clean appends the one spelling of a path to dst, by section 6 of RFC 3986 and what
// servers do beyond it: escapes of characters that have no meaning are decoded, all
// others are written in capitals, bytes that should have been escaped are, and empty
// and dot segments are resolved, never above the root. Empty segments go first, as in
// nginx and Go: /a//../b is /b. What follows a question mark is left out, and so are
// the scheme and the host of a whole URL. A % that begins no escape is itself one
// that was not escaped.
//
// Unless an option says otherwise a slash at the end stays, and an escaped slash
// (%2F) stays one that does not separate. The result of Clean is clean under the same
// options.
func Clean(dst []byte, path string, o Options) []byte {
	path = target(path)
	if isClean(path, o) {
		return append(dst, path...)
	}
	return clean(dst, path, o)
}

// String is Clean with strings. A path that was clean is returned as it stands,
// without an allocation.
func String(path string, o Options) string {
	path = target(path)
	if isClean(path, o) {
		return path
	}
	var memory [256]byte
	cleaned := clean(memory[:0], path, o)
	if string(cleaned) == path {
		return path
	}
	return string(cleaned)
}

// target returns the path of a request's target: without the query and, in a whole
// URL, without the scheme and the host.
func target(s string) string {
	if i := strings.IndexByte(s, '?'); i >= 0 {
		s = s[:i]
	}
	if s == "" || s[0] == '/' {
		return s
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || strings.Trim(scheme, schemeLetters) != "" {
		return s
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return ""
}

const schemeLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-."

// What a byte is, in bits.
const (
	escaped = 1 << iota // it never stands for itself
	capital
	backslash
	semicolon
	stop // a slash or a dot, which the next byte decides about
)

// kinds are the bytes that may be wrong in a path.
var kinds = func() (k [256]uint8) {
	for c := range k {
		switch {
		case c <= ' ', c >= 0x7f, c == '%', c == '?', c == '#':
			k[c] = escaped
		case c >= 'A' && c <= 'Z':
			k[c] = capital
		}
	}
	k['\\'], k[';'], k['/'], k['.'] = backslash, semicolon, stop, stop
	return k
}()

// wrong returns what makes a path not clean.
func (o *Options) wrong() uint8 {
	bits := uint8(escaped | stop)
	if o.Case {
		bits |= capital
	}
	if o.Backslash {
		bits |= backslash
	}
	if o.Parameters {
		bits |= semicolon
	}
	return bits
}

// isClean says whether Clean would change nothing. It may be wrong only by saying
// no.
func isClean(path string, o Options) bool {
	if path == "" || path[0] != '/' {
		return path == "*" // the target of OPTIONS for a whole server
	}
	if o.TrailingSlash && len(path) > 1 && path[len(path)-1] == '/' {
		return false
	}
	wrong := o.wrong()
	for i := range len(path) {
		kind := kinds[path[i]] & wrong
		if kind == 0 {
			continue
		}
		next := byte(0)
		if i+1 < len(path) {
			next = path[i+1]
		}
		switch {
		case kind != stop:
			return false
		case path[i] == '/':
			if next == '/' || next == '.' {
				return false
			}
		case o.Endings && (next == '/' || next == 0):
			return false
		}
	}
	return true
}

// clean is Clean for what may not be clean.
func clean(dst []byte, path string, o Options) []byte {
	var memory [256]byte
	if o.Escapes {
		path = string(unescape(memory[:0], path, o.EscapedSlash))
	}
	before := len(dst)
	dst = append(dst, '/')
	dst = spell(dst, path, o)
	if o.Case && bytes.IndexByte(dst[before:], '%') >= 0 {
		dst = append(dst[:before], lower(memory[:0], dst[before:])...)
	}
	return dst[:before+resolve(dst[before:], o)]
}

// resolve takes empty and dot segments out of a path that begins with a slash, and
// returns how long what is left is.
func resolve(path []byte, o Options) int {
	n, directory := 0, false
	for from := 1; from <= len(path); {
		to := len(path)
		if i := bytes.IndexByte(path[from:], '/'); i >= 0 {
			to = from + i
		}
		segment := o.segment(path[from:to])
		directory = true
		switch string(segment) {
		case "":
			if o.DotsFirst {
				path[n] = '/'
				n++
			}
		case ".":
		case "..":
			n = max(0, bytes.LastIndexByte(path[:n], '/'))
		default:
			// What is written is never ahead of what was read.
			path[n] = '/'
			n += 1 + copy(path[n+1:], segment)
			directory = false
		}
		from = to + 1
	}
	if o.DotsFirst {
		n = merge(path[:n])
	}
	if n == 0 || directory && !o.TrailingSlash {
		path[n] = '/'
		n++
	}
	return n
}

// merge leaves out empty segments, and returns how long what is left is.
func merge(path []byte) int {
	n := 0
	for i, c := range path {
		if c != '/' || i+1 < len(path) && path[i+1] != '/' {
			path[n] = c
			n++
		}
	}
	return n
}

// segment returns what counts of a segment.
func (o *Options) segment(s []byte) []byte {
	if o.Parameters {
		if i := bytes.IndexByte(s, ';'); i >= 0 {
			s = s[:i]
		}
	}
	if !o.Endings {
		return s
	}
	for {
		s = trimBlanks(s)
		if string(s) == "." || string(s) == ".." || len(s) == 0 || s[len(s)-1] != '.' {
			return s
		}
		s = s[:len(s)-1]
	}
}

// trimBlanks takes escaped spaces and control characters from the end of a segment.
func trimBlanks(s []byte) []byte {
	for n := len(s); n >= 3 && s[n-3] == '%'; n = len(s) {
		c := unhex(s[n-2])<<4 | unhex(s[n-1])
		if c > ' ' && c != 0x7f {
			break
		}
		s = s[:n-3]
	}
	return s
}
