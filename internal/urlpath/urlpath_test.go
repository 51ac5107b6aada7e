package urlpath

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestString(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		options  Options
	}{
		{in: "/", want: "/"},
		{in: "", want: "/"},
		{in: "*", want: "*"},
		{in: "%2A", want: "/*", options: All},
		{in: "/users/42", want: "/users/42"},
		{in: "/users/42/", want: "/users/42/"},
		{in: "//users///42", want: "/users/42"},
		{in: "/./users/./42", want: "/users/42"},
		{in: "/users/7/../42", want: "/users/42"},
		{in: "/users//../42", want: "/42"},
		{in: "/../../users/42", want: "/users/42"},
		{in: "/users/42/.", want: "/users/42/"},
		{in: "/users/42/..", want: "/users/"},
		{in: "/..", want: "/"},
		{in: "/%75sers/4%32", want: "/users/42"},
		{in: "/%2e%2E/users/%2e/42", want: "/users/42"},
		{in: "/a%40b", want: "/a@b"},
		{in: "/caf\u00e9", want: "/caf%C3%A9"},
		{in: "/caf%c3%a9", want: "/caf%C3%A9"},
		{in: "/a b", want: "/a%20b"},
		{in: "/50%", want: "/50%25"},
		{in: "/50%zz", want: "/50%25zz"},
		{in: "/50%25", want: "/50%25"},
		{in: "/%00", want: "/%00"},
		{in: "/a%3Fb", want: "/a%3Fb"},
		{in: "/a?b=/../c", want: "/a"},
		{in: "/a#b", want: "/a%23b"},
		{in: "/.hidden", want: "/.hidden"},
		{in: "/...", want: "/..."},
		{in: "users/42", want: "/users/42"},
		{in: "http://example.com:80/users//42?x", want: "/users/42"},
		{in: "HTTPS://example.com", want: "/"},
		{in: "/http://x", want: "/http:/x"},

		{in: "/Users/ANN", want: "/Users/ANN"},
		{in: "/Users/%41NN", want: "/users/ann", options: Options{Case: true}},
		{in: "/CAF%C3%89/\u03a3\u03c2", want: "/caf%C3%A9/%CF%83%CF%83", options: Options{Case: true}},
		{in: "/%E2%84%AAelvin/%c5%bf", want: "/kelvin/s", options: Options{Case: true}},
		{in: "/%ff%C3", want: "/%FF%C3", options: Options{Case: true}},

		{in: "/users/", want: "/users", options: Options{TrailingSlash: true}},
		{in: "/users/42/..", want: "/users", options: Options{TrailingSlash: true}},
		{in: "/", want: "/", options: Options{TrailingSlash: true}},

		{in: "/users%2f42", want: "/users%2F42"},
		{in: "/users%2f42", want: "/users/42", options: Options{EscapedSlash: true}},
		{in: "/x%2F..%2fusers", want: "/users", options: Options{EscapedSlash: true}},
		{in: "/x%2F..%2fusers", want: "/x%2F..%2Fusers"},

		{in: `/users\42`, want: `/users\42`},
		{in: `/users\42%5c`, want: "/users/42/", options: Options{Backslash: true}},

		{in: "/%2575sers%252f42", want: "/%2575sers%252f42"},
		{in: "/%252575sers", want: "/users", options: Options{Escapes: true}},
		{in: "/users%252f42", want: "/users%2F42", options: Options{Escapes: true}},
		{in: "/users%252f42", want: "/users/42", options: Options{Escapes: true, EscapedSlash: true}},
		{in: "/%25%37%35sers", want: "/users", options: Options{Escapes: true}},
		{in: "/%c0%ae%c0%ae/users%e0%80%af42", want: "/users/42", options: Options{Escapes: true, EscapedSlash: true}},
		{in: "/%u0075sers%U002f42/%u00e9", want: "/users/42/%25u00e9", options: Options{Escapes: true, EscapedSlash: true}},
		{in: "/a%253Fb", want: "/a%3Fb", options: Options{Escapes: true}},
		{in: "/50%25zz", want: "/50%25zz", options: Options{Escapes: true}},

		{in: "/users;v=1/42;x", want: "/users;v=1/42;x"},
		{in: "/users;v=1/42;x", want: "/users/42", options: Options{Parameters: true}},
		{in: "/x/..;y/users%3b", want: "/users", options: Options{Parameters: true}},

		{in: "/users./42.%20", want: "/users./42.%20"},
		{in: "/users./42.%20.%0a", want: "/users/42", options: Options{Endings: true}},
		{in: "/x/..%20/users", want: "/users", options: Options{Endings: true}},
		{in: "/users%00.jpg", want: "/users", options: Options{Endings: true}},
		{in: "/users#x", want: "/users", options: Options{Endings: true}},
		{in: "/users%23x", want: "/users%23x", options: Options{Endings: true}},
		{in: "/.../users", want: "/users", options: Options{Endings: true}},

		{in: "/users//../42", want: "/users/42", options: Options{DotsFirst: true}},
		{in: "//users/x//../../42//", want: "/users/42/", options: Options{DotsFirst: true}},
		{in: "//..", want: "/", options: Options{DotsFirst: true}},
	} {
		got := String(tt.in, tt.options)
		if got != tt.want {
			t.Errorf("String(%q, %+v) = %q, want %q", tt.in, tt.options, got, tt.want)
		}
		if appended := Clean([]byte("before "), tt.in, tt.options); string(appended) != "before "+got {
			t.Errorf("Clean(%q, %+v) = %q after a text", tt.in, tt.options, appended)
		}
		if want := slow(tt.in, tt.options); got != want {
			t.Errorf("String(%q, %+v) = %q, the slow one says %q", tt.in, tt.options, got, want)
		}
	}
}

func TestCleanPathsAllocateNothing(t *testing.T) {
	dst := make([]byte, 0, 100)
	for _, path := range []string{"/v1/users/42/orders", "/.well-known/security.txt"} {
		for _, o := range []Options{{}, All} {
			if n := testing.AllocsPerRun(100, func() { String(path, o); dst = Clean(dst[:0], path, o) }); n != 0 {
				t.Errorf("%s, %+v: %v allocations", path, o, n)
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { dst = Clean(dst[:0], "/v1//users/./%34%32/x/../orders/", Options{}) }); n != 0 {
		t.Errorf("a path that is not clean: %v allocations", n)
	}
}

// The time for a path of nested escapes grows only with its length.
func TestEscapesWithinEscapes(t *testing.T) {
	path := "/%" + strings.Repeat("25", 1<<20) + "41"
	if got := String(path, All); got != "/a" {
		t.Errorf("%d bytes", len(got))
	}
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{
		"/a/../b", "//", "/%2e%2e/%2F", "*", "/%", "/%4", "a/b?c#d", "/%2525%41", "/a;b/..;/c. /%00", `\%5c`, "/%c0%af%u002e", "/É%C3%89K",
		"http://x/y", "/%E2%84%AA", "/%e0%80%ae%F0%80%80%AE", "/.%20./.. ", "/a#b",
	} {
		f.Add(seed, uint8(0))
		f.Add(seed, uint8(0x7f))
		f.Add(seed, uint8(0x55))
		f.Add(seed, uint8(0xff))
	}
	f.Fuzz(func(t *testing.T, path string, bits uint8) {
		o := Options{bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0, bits&16 > 0, bits&32 > 0, bits&64 > 0, bits&128 > 0}
		if !Unclear(path) && String(path, o) != String(path, Options{Case: o.Case, TrailingSlash: o.TrailingSlash}) {
			t.Errorf("Unclear(%q) is false under %+v", path, o)
		}
		cleaned := String(path, o)
		if want := slow(path, o); cleaned != want {
			t.Fatalf("String(%q, %+v) = %q, the slow one says %q", path, o, cleaned, want)
		}
		if again := String(cleaned, o); again != cleaned {
			t.Errorf("String(%q, %+v) = %q, and then %q", path, o, cleaned, again)
		}
		if cleaned == "*" {
			return
		}
		if cleaned[0] != '/' || strings.Contains(cleaned, "//") || strings.Contains(cleaned+"/", "/./") || strings.Contains(cleaned+"/", "/../") {
			t.Errorf("String(%q, %+v) = %q", path, o, cleaned)
		}
		if appended := Clean([]byte("x"), path, o); !bytes.Equal(appended, []byte("x"+cleaned)) {
			t.Errorf("Clean(%q, %+v) = %q after a text", path, o, appended)
		}
	})
}

// character is one byte or rune of a path, for slow.
type character struct {
	value byte
	data  bool // an escaped slash, which separates no segments
}

var (
	escape   = regexp.MustCompile(`(?i)%[0-9a-f]{2}`)
	microhex = regexp.MustCompile(`(?i)%u00[0-7][0-9a-f]`)
)

// slow does the same as Clean, step by step as in Clean's comment.
func slow(path string, o Options) string {
	path, _, _ = strings.Cut(path, "?")
	if m := regexp.MustCompile(`^[A-Za-z0-9+.-]*://[^/]*`).FindString(path); m != "" && path[0] != '/' {
		path = strings.TrimPrefix(path, m)
	}
	if path == "*" {
		return "*"
	}
	if o.Escapes {
		path = slowUnescape(path, o)
	}
	characters := slowDecode(path, o)
	var segments [][]character
	segments = append(segments, nil)
	for _, c := range characters {
		if c.value == '/' && !c.data {
			segments = append(segments, nil)
			continue
		}
		last := len(segments) - 1
		segments[last] = append(segments[last], c)
	}
	var kept []string
	last := ""
	for _, s := range segments {
		last = slowSegment(s, o)
		switch last {
		case ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			if last != "" || o.DotsFirst {
				kept = append(kept, last)
			}
		}
	}
	kept = slices.DeleteFunc(kept, func(s string) bool { return s == "" })
	result := "/" + strings.Join(kept, "/")
	if (last == "" || last == "." || last == "..") && len(kept) > 0 && !o.TrailingSlash {
		result += "/"
	}
	return result
}

// slowUnescape replaces one escape after the other until there is none.
func slowUnescape(path string, o Options) string {
	for {
		before := path
		path = escape.ReplaceAllStringFunc(path, func(e string) string {
			c := unhex(e[1])<<4 | unhex(e[2])
			if c == '/' && !o.EscapedSlash {
				return e
			}
			return string([]byte{c})
		})
		path = microhex.ReplaceAllStringFunc(path, func(e string) string {
			c := unhex(e[4])<<4 | unhex(e[5])
			if c == '/' && !o.EscapedSlash {
				return e
			}
			return string([]byte{c})
		})
		for c := range byte(0x80) {
			if c == '/' && !o.EscapedSlash {
				continue
			}
			low, high := 0x80|c&0x3f, c>>6
			for _, long := range [][]byte{{0xc0 | high, low}, {0xe0, 0x80 | high, low}, {0xf0, 0x80, 0x80 | high, low}} {
				path = strings.ReplaceAll(path, string(long), string([]byte{c}))
			}
		}
		if path == before {
			return path
		}
	}
}

// slowDecode decodes each escape once.
func slowDecode(path string, o Options) []character {
	var found []character
	for i := 0; i < len(path); i++ {
		c := character{value: path[i]}
		if i+3 <= len(path) && escape.MatchString(path[i:i+3]) {
			c = character{value: unhex(path[i+1])<<4 | unhex(path[i+2]), data: true}
			i += 2
		}
		if o.Endings && (c.value == 0 || c.value == '#' && !c.data) {
			break
		}
		if o.Backslash && c.value == '\\' || o.EscapedSlash && c.value == '/' {
			c = character{value: '/'}
		}
		found = append(found, c)
	}
	return found
}

// slowSegment cleans a segment.
func slowSegment(s []character, o Options) string {
	text := make([]byte, len(s))
	for i, c := range s {
		text[i] = c.value
	}
	segment := string(text)
	if o.Parameters {
		segment, _, _ = strings.Cut(segment, ";")
	}
	if o.Case {
		segment = slowLower(segment)
	}
	for o.Endings {
		segment = strings.TrimRight(segment, "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"+
			"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f \x7f")
		if segment == "." || segment == ".." || !strings.HasSuffix(segment, ".") {
			break
		}
		segment = strings.TrimSuffix(segment, ".")
	}
	if segment == "." || segment == ".." {
		return segment
	}
	var b strings.Builder
	for i := range len(segment) {
		if c := segment[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("%?#/", c) >= 0 {
			b.WriteString("%" + string(upperHex[c>>4]) + string(upperHex[c&15]))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// slowLower converts letters that differ only by case to one letter.
func slowLower(s string) string {
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		letter := s[:n]
		s = s[n:]
		if !utf8.ValidString(letter) {
			b.WriteString(letter)
			continue
		}
		orbit := []rune{r}
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			orbit = append(orbit, next)
		}
		first := orbit[0]
		for _, o := range orbit {
			if o < first {
				first = o
			}
		}
		b.WriteString(strings.ToLower(string(first)))
	}
	return b.String()
}
