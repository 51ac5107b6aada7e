package urlpath_test

import (
	"slices"
	"strings"
	"testing"

	"stint/internal/testkit"
	"stint/internal/urlpath"
)

// A path has a reading for each way in which a server, or a proxy and a server, read it.
func TestReadings(t *testing.T) {
	for _, tt := range []struct {
		path string
		want string
	}{
		{"/reports", "/reports"},
		{"/reports?a=%2F../b", "/reports"},
		{"/a%20b/caf%c3%a9/.well-known/v1.0/./x", "/a%20b/caf%C3%A9/.well-known/v1.0/x"},
		{"*", "*"},
		{"/x/../reports", "/reports"},
		{"/a;b=1/c", "/a;b=1/c /a/c"},
		{"/fetch/https%3A%2F%2Fhost%2Fa", "/fetch/https:%2F%2Fhost%2Fa /fetch/https:/host/a"},
		{"/x/%2F../reports", "/x/%2F../reports /reports /x/%2F/reports /x/reports"}, // nginx; nginx after Go; Node
		{"/a//../b", "/b /a/b"},                // Go; Node
		{"//x/reports", "/x/reports /reports"}, // Node's URL reads x as a host
		{"/\\x/reports", `/\x/reports /x/reports /reports`},
		{"/api/..%3Bz/..;/reports", "/api/..;z/..;/reports /api/reports /reports"},      // Tomcat leaves escaped semicolons
		{"/api/q/..%3B/%2e%2e/..;/reports", "/api/q/..;/reports /api/reports /reports"}, // nginx, then Tomcat
		{"/api/%2e%2e/../reports", "/reports /api/reports"},                             // a server that resolves dots before it decodes
		{"/reports#x", "/reports%23x /reports"},                                         // nginx
		{"/reports%23x", "/reports%23x /reports"},                                       // decoded by a proxy
		{"/%2572eports", "/%2572eports /reports"},                                       // twice
		{"/api/%25252e./%252e./reports", "/api/%25252e./%252e./reports /api/reports /reports /api/%25252e/%252e/reports /api/%252e/reports"}, // decoding twice or three times gives different paths
		{"/reports.", "/reports. /reports"},
		{"/reports/.", "/reports/ /reports"}, // Tomcat
	} {
		got, ok := urlpath.Readings(tt.path, urlpath.Options{})
		if text := strings.Join(got, " "); !ok || text != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.path, text, ok, tt.want)
		}
	}
}

// Whatever options a server has, its reading is in the result, or the path is refused. Usual paths
// have few readings.
func TestReadingsOfAllOptions(t *testing.T) {
	spellings := 100
	if testing.Short() {
		spellings = 40
	}
	for _, o := range []urlpath.Options{{}, {Case: true, TrailingSlash: true}} {
		refused, sent := 0, 0
		for each := range 64 {
			as := readBy(o, each)
			for _, path := range testkit.RespellPath("/api/reports", spellings, as) {
				sent++
				all, ok := urlpath.Readings(path, o)
				if len(all) > urlpath.MostReadings {
					t.Fatalf("%q: %d readings", path, len(all))
				}
				if !ok {
					refused++
					continue
				}
				if all[0] != urlpath.String(path, o) {
					t.Fatalf("%q: %q first", path, all[0])
				}
				for other := range 64 {
					if one := urlpath.String(path, readBy(o, other)); !slices.Contains(all, one) {
						t.Fatalf("%q: %q by options %d, not among %q", path, one, other, all)
					}
				}
			}
		}
		if refused*10 > sent {
			t.Errorf("%d of %d are refused", refused, sent)
		}
	}
}

// readBy returns options with those of the others that are set in bits.
func readBy(o urlpath.Options, bits int) urlpath.Options {
	for i, to := range []*bool{&o.EscapedSlash, &o.Backslash, &o.Escapes, &o.Parameters, &o.Endings, &o.DotsFirst} {
		*to = bits>>i&1 == 1
	}
	return o
}

// A long path with a single ambiguous place has readings.
func TestLongReadings(t *testing.T) {
	for _, part := range []string{"/https%3A%2F%2Fhost%2Fa", "/a;b=1", "/%D0%B9%20x", "//a/./b"} {
		path := strings.Repeat(part, 8<<10/len(part))
		if all, ok := urlpath.Readings(path, urlpath.Options{}); !ok || len(all) > 2 {
			t.Errorf("%s...: %d readings, %v", part, len(all), ok)
		}
	}
}

// The worst paths take little time, and are refused.
func TestReadingsAreBounded(t *testing.T) {
	for _, part := range []string{"/%2F..;", "/%252e%5c..", "/a;.%2F%2e./", `/\..;%3B%2e.`, "//%25252F.;#", "/%c0%af.%00;"} {
		path := strings.Repeat(part, 60<<10/len(part))
		began := testing.AllocsPerRun(1, func() {
			if all, ok := urlpath.Readings(path, urlpath.Options{}); ok || len(all) > urlpath.MostReadings {
				t.Errorf("%s...: %d readings, %v", part, len(all), ok)
			}
		})
		if began > 500 {
			t.Errorf("%s...: %v allocations", part, began)
		}
	}
}

func FuzzReadings(f *testing.F) {
	f.Add("/x/%2F../reports")
	f.Add(`//x\..;a/%252e%u002e/%c0%af#%00.`)
	f.Fuzz(func(t *testing.T, path string) {
		all, ok := urlpath.Readings(path, urlpath.Options{})
		if len(all) == 0 || len(all) > urlpath.MostReadings {
			t.Fatalf("%d readings", len(all))
		}
		if all[0] != urlpath.String(path, urlpath.Options{}) {
			t.Fatalf("%q first", all[0])
		}
		for i, one := range all {
			if again := urlpath.String(one, urlpath.Options{}); again != one && i > 0 {
				t.Fatalf("%q is not clean: %q", one, again)
			}
		}
		for bits := range 64 {
			if one := urlpath.String(path, readBy(urlpath.Options{}, bits)); ok && path != "" && path[0] == '/' && !slices.Contains(all, one) {
				t.Fatalf("%q by options %d, not among %q", one, bits, all)
			}
		}
	})
}
