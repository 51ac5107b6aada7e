package testkit

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// DodgePaths returns n spellings of some clean paths, different from each other and from the paths.
// Many of them mean one of the paths to some server or chain of servers. Each spelling is written
// for a server with some of the possible steps, and contains text that only other servers change.
// They are the same for each seed.
func DodgePaths(paths []string, n int, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 7))
	found, seen := make([]string, 0, n), map[string]bool{}
	for _, path := range paths {
		seen[path] = true
	}
	for len(found) < n {
		d := newDodger(r)
		if s := d.path(paths[r.IntN(len(paths))]); !seen[s] {
			seen[s] = true
			found = append(found, s)
		}
	}
	return found
}

// dodger writes one spelling, for one server.
type dodger struct {
	*rand.Rand
	slashes, ups, heres, names []string
	decoys                     []string // texts that are plain names for this server, but not for others
	emptyFirst                 bool     // the server removes empty segments before it resolves dots
	letters                    []string // formats of escaped letters
}

func newDodger(r *rand.Rand) *dodger {
	d := &dodger{
		Rand: r, slashes: []string{"/", "/", "/"}, ups: []string{"..", ".."}, heres: []string{"."},
		names: []string{"x", "api", "reports", "a.b"}, emptyFirst: r.IntN(3) > 0, letters: []string{"%%%02x", "%%%02X"},
	}
	either := func(is bool, to *[]string, texts ...string) {
		if !is {
			to = &d.decoys
		}
		*to = append(*to, texts...)
	}
	slashes, backslashes := r.IntN(2) == 0, r.IntN(4) == 0
	dots, parameters, twice := r.IntN(3) > 0, r.IntN(2) == 0, r.IntN(8) == 0
	either(dots, &d.ups, "%2e%2e", ".%2E", "%2e.")
	either(dots, &d.heres, "%2e")
	either(slashes, &d.slashes, "%2F", "%2f")
	either(backslashes, &d.slashes, `\`)
	either(backslashes && r.IntN(2) == 0, &d.slashes, "%5C")
	either(parameters, &d.ups, "..;", "..;v=1")
	either(parameters && r.IntN(3) == 0, &d.ups, "..%3B", "..%3bx")
	either(twice, &d.ups, "%252e%252e", ".%252E")
	if slashes && twice {
		d.slashes = append(d.slashes, "%252F")
	}
	if twice {
		d.letters = append(d.letters, "%%25%02x")
	}
	if parameters {
		d.names = append(d.names, "x;a=1", ";b")
	}
	d.decoys = append(d.decoys, "...", "..a", "..%20", "..%0a", "%2e%2e%5c", "..%2F", "%2F..", `\..`, "..%3b%2f")
	return d
}

func (d *dodger) one(of []string) string { return of[d.IntN(len(of))] }

// path writes the whole path.
func (d *dodger) path(path string) string {
	var b strings.Builder
	if d.IntN(12) == 0 {
		b.WriteString(d.one([]string{"//h", `/\h`, "///h", "//h:80", "//"}))
	}
	often := 1 + d.IntN(3)
	for i, segment := range strings.Split(path[1:], "/") {
		slash := "/"
		if i > 0 {
			slash = d.one(d.slashes)
		}
		b.WriteString(slash)
		for d.IntN(5) < often {
			b.WriteString(d.nothing())
		}
		for i := range len(segment) {
			if d.IntN(24) < often {
				fmt.Fprintf(&b, d.one(d.letters), segment[i])
			} else {
				b.WriteByte(segment[i])
			}
		}
	}
	if d.IntN(4) == 0 {
		b.WriteString(d.one([]string{
			";", ";x", ";x=1;y", ";x/", "#", "#x", "#/../x", "%23", "%23x", "?a=1", "?/../x", "%00", "%00x", "%20", ".", "/", "/.", "%2F", "/x/..", "//",
			"%3F", "%3Fx", "%3B", "%3Bx", `\`, "%5C", "%", "%zz", "%u002f", "%c0%af", ";%2F..", "/..;/reports", "/..%2freports", "/%2e%2e/reports",
		}))
	}
	return b.String()
}

// nothing writes segments without an effect, with their closing slash.
func (d *dodger) nothing() string {
	var b strings.Builder
	ups := 0
	switch n := d.IntN(10); {
	case n == 0:
		return d.one(d.heres) + d.one(d.slashes)
	case n == 1 && d.emptyFirst:
		return d.one(d.slashes)
	case n == 2 && !d.emptyFirst:
		b.WriteString(d.one(d.slashes))
		ups = 1
	default:
		for range 1 + d.IntN(2) {
			name := d.one(d.names)
			if d.IntN(2) == 0 {
				name = d.one(d.decoys)
			}
			b.WriteString(name + d.one(d.slashes))
			if d.emptyFirst && d.IntN(4) == 0 {
				b.WriteString(d.one(d.slashes))
			}
			ups++
		}
	}
	for range ups {
		b.WriteString(d.one(d.ups) + d.one(d.slashes))
	}
	return b.String()
}
