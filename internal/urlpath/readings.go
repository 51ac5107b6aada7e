package urlpath

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MostReadings is how many different paths one path may be to servers. Nobody but who
	// looks for a way around a limit writes one that is more.
	MostReadings = 16

	mostForms = 96 // what is between the steps of servers

	// The steps may read so many bytes, and so many times the path itself: the worst path
	// costs little more than a long one.
	leastWork = 64 << 10
	workTimes = 8

	// mostWork is what all paths of one call may have them read.
	mostWork = 1 << 20
)

// Readings returns the clean paths that servers may take a path for, the first by the
// options alone. Servers, and chains of a proxy and a server, differ by which steps they
// take and in which order: they decode once, twice or as often as they can, take %2F or a
// backslash for a slash, cut parameters, leave out empty segments before or after they
// resolve dots, and so on. The result has what any order of any of these steps makes of
// the path; Case and TrailingSlash are the options' alone.
//
// Most paths have one reading. ok is false for one that has more than MostReadings: the
// request is to be refused, because what it reaches may be none of those that were found.
func Readings(path string, o Options) (all []string, ok bool) {
	var w Work
	return w.Readings(path, o)
}

// Work is what has been done for the paths of one call, so that a call of many paths costs
// little more than one of the worst. The zero Work is that of a call which begins.
type Work struct{ done int }

// Readings is as the function. It is false also where the call has had its work done.
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

// step is something that some servers do with a path and others do not.
type step struct {
	bytes    string                 // a path without any of these is not concerned; "": it may be
	concerns func(path string) bool // false: the step changes nothing
	take     func(dst []byte, path string) []byte
}

var steps = []step{
	// Decode: all but slashes, slashes too, what was escaped twice; and all that is left, but
	// for slashes and with them.
	{"", func(s string) bool { return strings.ContainsFunc(s, isToEscape) }, func(dst []byte, s string) []byte { return spell(dst, s, Options{}) }},
	{"%", anyOf("%2F", "%2f"), func(dst []byte, s string) []byte { return spell(dst, s, Options{EscapedSlash: true}) }},
	{"%", anyOf("%25"), func(dst []byte, s string) []byte { return append(dst, strings.ReplaceAll(s, "%25", "%")...) }},
	{"%\xc0\xc1\xe0\xf0", isEscapedOften, func(dst []byte, s string) []byte { return spell(dst, string(unescape(nil, s, false)), Options{}) }},
	{"%\xc0\xc1\xe0\xf0", isEscapedOften, func(dst []byte, s string) []byte { return spell(dst, string(unescape(nil, s, true)), Options{}) }},

	{`\`, anyOf(`\`), func(dst []byte, s string) []byte { return append(dst, strings.ReplaceAll(s, `\`, "/")...) }},
	{";", anyOf(";"), eachSegment(Options{Parameters: true})},

	// Escaped dots or not, empty segments before the dots or after.
	{"", anyOf("//", "/."), func(dst []byte, s string) []byte { return resolved(dst, s, false, false) }},
	{"%", anyOf("%2e", "%2E"), func(dst []byte, s string) []byte { return resolved(dst, s, true, false) }},
	{"", anyOf("//"), func(dst []byte, s string) []byte { return resolved(dst, s, false, true) }},
	{"%", both(anyOf("//"), anyOf("%2e", "%2E")), func(dst []byte, s string) []byte { return resolved(dst, s, true, true) }},

	// Dots at the end, without a slash in their place.
	{".%", hasDotsLast, func(dst []byte, s string) []byte { return withoutSlash(resolved(dst, s, true, false)) }},
	{".%", both(hasDotsLast, anyOf("//")), func(dst []byte, s string) []byte { return withoutSlash(resolved(dst, s, true, true)) }},

	// What begins with two slashes is a host to who resolves it as a reference.
	{"", hasHost, withoutHost},

	// Ends: of a URL, of what was decoded on the way and is read again, of names of files.
	{"#", anyOf("#"), func(dst []byte, s string) []byte { return append(dst, s[:strings.IndexByte(s, '#')]...) }},
	{"%", anyOf("%23"), upTo("%23")},
	{"%", anyOf("%3F", "%3f"), upTo("%3F", "%3f")},
	{"%", anyOf("%00"), upTo("%00")},
	{".%", anyOf(".", "%0", "%1", "%20", "%7"), eachSegment(Options{Endings: true})},
}

// byteSet is which bytes a path has.
type byteSet [4]uint64

func bytesOf(path string) (has byteSet) {
	for i := range len(path) {
		has[path[i]>>6] |= 1 << (path[i] & 63)
	}
	return has
}

// any says whether one of some bytes is among them. It is true for none.
func (s *byteSet) any(of string) bool {
	for i := range len(of) {
		if s[of[i]>>6]>>(of[i]&63)&1 == 1 {
			return true
		}
	}
	return of == ""
}

// isToEscape says whether a character of a path is none, or begins an escape.
func isToEscape(r rune) bool { return r >= utf8.RuneSelf || kinds[r]&escaped != 0 }

// isEscapedOften says whether there may be more to decode than once.
var isEscapedOften = anyOf("%25", "%u", "%U", "%c", "%C", "%e0", "%E0", "%f0", "%F0", "\xc0", "\xc1", "\xe0", "\xf0")

// anyOf says whether a path has at least one of some texts.
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

// upTo leaves of a path what is before the first of some texts.
func upTo(ends ...string) func([]byte, string) []byte {
	return func(dst []byte, path string) []byte {
		for _, end := range ends {
			path, _, _ = strings.Cut(path, end)
		}
		return append(dst, path...)
	}
}

// eachSegment leaves of each segment what counts under some options.
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

// resolved appends a path without dot segments. Those that are escaped are some or are
// none, and so are empty segments.
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

// dots returns how many dots a segment is, 0 for one that is something else.
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
