// Package urlpath converts a URL's path to one clean spelling, so that a request cannot reach the
// same resource of a server under another name. Routes finds the pattern for a method and a path,
// with the patterns of net/http's ServeMux.
package urlpath

import (
	"bytes"
	"strings"
)

// Options define which spellings a server treats as equal, beyond those that every server does. The
// zero Options fit servers that follow RFC 3986: all Go servers, nginx, Envoy and Caddy while they
// forward paths unchanged. Each option makes more paths equal, which makes a limit stricter for
// servers that distinguish them. Without an option that the server needs, a client can choose among
// several buckets.
type Options struct {
	// Case treats capital letters like small ones: IIS, Express, and most file servers on Windows
	// and macOS.
	Case bool

	// TrailingSlash removes a slash at the end: Express, Django behind a redirect, Rails, Laravel.
	TrailingSlash bool

	// EscapedSlash treats %2F as a slash, and resolves dot segments after that: nginx with a path
	// in proxy_pass, Envoy that unescapes slashes, routers that match decoded paths (gin,
	// gorilla/mux, httprouter), most of PHP, Python and Ruby.
	EscapedSlash bool

	// Backslash treats \ and %5C as a slash: IIS, Envoy that normalizes paths.
	Backslash bool

	// Escapes decodes double escapes (%252F), overlong UTF-8 (%C0%AF) and IIS's %u002F: chains of
	// servers that each decode.
	Escapes bool

	// Parameters removes the rest of a segment after a semicolon: Tomcat, Jetty, Spring.
	Parameters bool

	// Endings removes dots, spaces and control characters at the end of a segment, and everything
	// after a NUL or a #: Windows, and programs whose strings end at a NUL.
	Endings bool

	// DotsFirst resolves dot segments before it removes empty ones, so that /a//../b is /a/b: URL
	// in Node and browsers, and Envoy that normalizes paths.
	DotsFirst bool
}

// All sets every option.
var All = Options{
	Case: true, TrailingSlash: true, EscapedSlash: true, Backslash: true,
	Escapes: true, Parameters: true, Endings: true, DotsFirst: true,
}

// Unclear reports whether options other than Case and TrailingSlash may change the path.
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

// Clean appends the clean spelling of a path to dst. By section 6 of RFC 3986 and by what servers
// do beyond it, Clean decodes escapes of characters without a special meaning, writes all other
// escapes in capitals, escapes bytes that need it, and resolves empty and dot segments, never above
// the root. It removes empty segments first, like nginx and Go: /a//../b is /b. It removes a query,
// and the scheme and the host of a whole URL. A % that begins no escape becomes %25.
//
// Without an option that changes it, a slash at the end stays, and an escaped slash (%2F) stays
// escaped and does not separate segments. Clean does not change its own result under the same
// options.
func Clean(dst []byte, path string, o Options) []byte {
	path = target(path)
	if isClean(path, o) {
		return append(dst, path...)
	}
	return clean(dst, path, o)
}

// String is Clean for strings. It returns a clean path as it is, without an allocation.
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

// target returns the path of a request target: without the query and, for a whole URL, without the
// scheme and the host.
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

// Kinds of bytes, as bits.
const (
	escaped = 1 << iota // always escaped
	capital
	backslash
	semicolon
	stop // a slash or a dot; the next byte decides whether it is clean
)

// kinds are the bytes that may make a path unclean.
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

// wrong returns the kinds that make a path unclean.
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

// isClean reports whether Clean would change nothing. It may return false for a clean path, but
// never true for an unclean one.
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

// clean is Clean for a path that may be unclean.
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

// resolve removes empty and dot segments from a path that begins with a slash, and returns the new
// length.
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
			// The write position is never after the read position.
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

// merge removes empty segments, and returns the new length.
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

// segment returns a segment without the parts that the options remove.
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

// trimBlanks removes escaped spaces and control characters from the end of a segment.
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
