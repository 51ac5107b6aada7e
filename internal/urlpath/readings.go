package urlpath

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MostReadings is the most different readings of one path. A path with more is only written to
	// evade a limit.
	MostReadings = 16

	mostForms = 96 // most intermediate forms between the steps of servers

	// The steps may read leastWork bytes, or a multiple of the path's length if that is more. So
	// the worst path costs little more than a long one.
	leastWork = 64 << 10
	workTimes = 8

	// mostWork is the most bytes that the steps may read for all paths of one call.
	mostWork = 1 << 20
)

// Readings returns the clean paths that different servers may read in a path; the first one follows
// from the options alone. Servers, and chains of a proxy and a server, differ in their steps and in
// the order of these: they decode once, twice or as often as possible, treat %2F or a backslash as
// a slash, remove parameters, remove empty segments before or after they resolve dots, and so on.
// The result has the path after any order of any of these steps. Case and TrailingSlash apply only
// as options.
//
// Most paths have one reading. ok is false for a path with more than MostReadings. The caller must
// refuse such a request, because the server may use a reading that is not in the result.
func Readings(path string, o Options) (all []string, ok bool) {
	var w Work
	return w.Readings(path, o)
}

// Work counts the work for the paths of one call, so that a call with many paths costs little more
// than one with the worst path. The zero Work is for a new call.
type Work struct{ done int }

// Readings is like the function. ok is also false if the call has used up its work.
func (w *Work) Readings(path string, o Options) (all []string, ok bool) {
	all = append(all, String(path, o))
	path = target(path)
	if !Unclear(path) || path == "" || path[0] != '/' {
		return all, true
	}
	var memory, more [256]byte
	form, reading := memory[:0], more[:0]
	most := min(mostWork, w.done+leastWork+workTimes*len(path))
	forms := append(make([]string, 0, 8), path)
	for i := 0; i < len(forms); i++ {
		has := bytesOf(forms[i])
		for s := range steps {
			if !has.any(steps[s].bytes) || !steps[s].concerns(forms[i]) {
				continue
			}
			if w.done += len(forms[i]); w.done > most {
				return all, false
			}
			form = steps[s].take(form[:0], forms[i])
			if isAmong(forms, form) {
				continue
			}
			if len(forms) == mostForms {
				return all, false
			}
			forms = append(forms, string(form))
			w.done += len(form)
			reading = clean(reading[:0], forms[len(forms)-1], o)
			if isAmong(all, reading) {
				continue
			}
			if len(all) == MostReadings {
				return all, false
			}
			all = append(all, string(reading))
		}
	}
	return all, true
}

func isAmong(all []string, one []byte) bool {
	return slices.ContainsFunc(all, func(s string) bool { return s == string(one) })
}

// step is a change of a path that some servers make and others do not.
type step struct {
	bytes    string                 // the step changes only paths with one of these bytes; "": any path
	concerns func(path string) bool // whether the step may change the path
	take     func(dst []byte, path string) []byte
}

var steps = []step{
	// Decode once: all but slashes, then slashes too, then double escapes. Then decode all levels,
	// without slashes and with them.
	{"", func(s string) bool { return strings.ContainsFunc(s, isToEscape) }, func(dst []byte, s string) []byte { return spell(dst, s, Options{}) }},
	{"%", anyOf("%2F", "%2f"), func(dst []byte, s string) []byte { return spell(dst, s, Options{EscapedSlash: true}) }},
	{"%", anyOf("%25"), func(dst []byte, s string) []byte { return append(dst, strings.ReplaceAll(s, "%25", "%")...) }},
	{"%\xc0\xc1\xe0\xf0", isEscapedOften, func(dst []byte, s string) []byte { return spell(dst, string(unescape(nil, s, false)), Options{}) }},
	{"%\xc0\xc1\xe0\xf0", isEscapedOften, func(dst []byte, s string) []byte { return spell(dst, string(unescape(nil, s, true)), Options{}) }},

	{`\`, anyOf(`\`), func(dst []byte, s string) []byte { return append(dst, strings.ReplaceAll(s, `\`, "/")...) }},
	{";", anyOf(";"), eachSegment(Options{Parameters: true})},

	// Resolve dots: escaped dots count or not, and empty segments are removed before or after.
	{"", anyOf("//", "/."), func(dst []byte, s string) []byte { return resolved(dst, s, false, false) }},
	{"%", anyOf("%2e", "%2E"), func(dst []byte, s string) []byte { return resolved(dst, s, true, false) }},
	{"", anyOf("//"), func(dst []byte, s string) []byte { return resolved(dst, s, false, true) }},
	{"%", both(anyOf("//"), anyOf("%2e", "%2E")), func(dst []byte, s string) []byte { return resolved(dst, s, true, true) }},

	// Remove dots at the end together with the slash before them.
	{".%", hasDotsLast, func(dst []byte, s string) []byte { return withoutSlash(resolved(dst, s, true, false)) }},
	{".%", both(hasDotsLast, anyOf("//")), func(dst []byte, s string) []byte { return withoutSlash(resolved(dst, s, true, true)) }},

	// A server that resolves the path as a reference takes the segment after two slashes as a host.
	{"", hasHost, withoutHost},

	// Cut at the end of a path: the fragment of a URL, also one that was decoded before, and the
	// end of a file name.
	{"#", anyOf("#"), func(dst []byte, s string) []byte { return append(dst, s[:strings.IndexByte(s, '#')]...) }},
	{"%", anyOf("%23"), upTo("%23")},
	{"%", anyOf("%3F", "%3f"), upTo("%3F", "%3f")},
	{"%", anyOf("%00"), upTo("%00")},
	{".%", anyOf(".", "%0", "%1", "%20", "%7"), eachSegment(Options{Endings: true})},
}

// byteSet is the set of bytes in a path.
type byteSet [4]uint64

func bytesOf(path string) (has byteSet) {
	for i := range len(path) {
		has[path[i]>>6] |= 1 << (path[i] & 63)
	}
	return has
}

// any reports whether the set has one of the bytes in of. It is true for an empty of.
func (s *byteSet) any(of string) bool {
	for i := range len(of) {
		if s[of[i]>>6]>>(of[i]&63)&1 == 1 {
			return true
		}
	}
	return of == ""
}

// isToEscape reports whether a character must be escaped, or begins an escape.
func isToEscape(r rune) bool { return r >= utf8.RuneSelf || kinds[r]&escaped != 0 }

// isEscapedOften reports whether a path may have double escapes.
var isEscapedOften = anyOf("%25", "%u", "%U", "%c", "%C", "%e0", "%E0", "%f0", "%F0", "\xc0", "\xc1", "\xe0", "\xf0")

// anyOf returns a function that reports whether a path contains at least one of the texts.
func anyOf(texts ...string) func(string) bool {
	return func(path string) bool {
		for _, text := range texts {
			if strings.Contains(path, text) {
				return true
			}
		}
		return false
	}
}

func both(one, other func(string) bool) func(string) bool {
	return func(path string) bool { return one(path) && other(path) }
}

// upTo returns a function that cuts a path before the first of the texts.
func upTo(ends ...string) func([]byte, string) []byte {
	return func(dst []byte, path string) []byte {
		for _, end := range ends {
			path, _, _ = strings.Cut(path, end)
		}
		return append(dst, path...)
	}
}

// eachSegment returns a function that cleans each segment under some options.
func eachSegment(o Options) func([]byte, string) []byte {
	return func(dst []byte, path string) []byte {
		for more := true; more; {
			var segment string
			segment, path, more = strings.Cut(path, "/")
			before := len(dst)
			dst = append(dst, segment...)
			dst = dst[:before+len(o.segment(dst[before:]))]
			if more {
				dst = append(dst, '/')
			}
		}
		return dst
	}
}

// resolved appends a path without dot segments. escaped and empty select whether escaped dots count
// as dots, and whether empty segments count as segments.
func resolved(dst []byte, path string, escaped, empty bool) []byte {
	root := len(dst)
	for path, more := path[1:], true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		switch dots(segment, escaped) {
		case 1:
		case 2:
			dst = dst[:root+max(0, bytes.LastIndexByte(dst[root:], '/'))]
		default:
			if segment != "" || empty && more {
				dst = append(append(dst, '/'), segment...)
				continue
			}
		}
		if !more {
			dst = append(dst, '/')
		}
	}
	return dst
}

// dots returns the number of dots if the segment consists only of dots, else 0.
func dots(segment string, escaped bool) int {
	n := 0
	for ; segment != ""; n++ {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case escaped && len(segment) >= 3 && segment[:2] == "%2" && segment[2]|0x20 == 'e':
			segment = segment[3:]
		default:
			return 0
		}
	}
	if n > 2 {
		return 0
	}
	return n
}

func hasDotsLast(path string) bool {
	return dots(path[strings.LastIndexByte(path, '/')+1:], true) > 0
}

func withoutSlash(path []byte) []byte {
	if len(path) > 1 {
		return bytes.TrimSuffix(path, []byte("/"))
	}
	return path
}

func hasHost(path string) bool {
	return len(path) > 1 && path[0] == '/' && (path[1] == '/' || path[1] == '\\')
}

func withoutHost(dst []byte, path string) []byte {
	path = strings.TrimLeft(path, `/\`)
	dst = append(dst, '/')
	if i := strings.IndexAny(path, `/\`); i >= 0 {
		dst = append(dst, path[i+1:]...)
	}
	return dst
}
