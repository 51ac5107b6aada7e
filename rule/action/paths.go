package action

import (
	"fmt"
	"strings"

	"stint/internal/strictyaml"
	"stint/internal/urlpath"
)

// Paths is how the path of a request is read: which spellings the server behind treats as equal.
// The zero Paths read a path as RFC 3986 does. A path that some servers read differently is also
// read as these servers do, and the request counts under every reading, so a client cannot gain by
// its spelling.
type Paths struct {
	fold urlpath.Options
	once bool // never use a second reading
}

// ReadPaths compiles `path` of the http section and reports its faults.
func ReadPaths(v strictyaml.Value) Paths {
	var p Paths
	v.Object("path", strictyaml.Words{
		"fold": func(v strictyaml.Value) {
			words := make([]string, len(urlpath.Words))
			for i, f := range urlpath.Words {
				words[i] = f.Name
			}
			for _, element := range v.List() {
				if i, ok := element.OneOf(words...); ok {
					urlpath.Words[i].Set(&p.fold)
				}
			}
		},
		"unclear": func(v strictyaml.Value) {
			i, _ := v.OneOf("both", "first")
			p.once = i == 1
		},
	}, func(word string) string {
		for _, f := range urlpath.Words {
			if word == f.Name {
				return fmt.Sprintf("write fold: [%s]", word)
			}
		}
		return ""
	})
	return p
}

// String returns the spellings that are folded, for output and tests; "" for the zero Paths.
func (p Paths) String() string {
	var words []string
	for _, f := range urlpath.Words {
		if o := p.fold; func() bool { f.Set(&o); return o == p.fold }() {
			words = append(words, f.Name)
		}
	}
	text := strings.Join(words, " ")
	if p.once {
		text += " once"
	}
	return strings.TrimSpace(text)
}

// Read returns the normalized path by the settings of the file only.
func (p Paths) Read(path string) string { return urlpath.String(path, p.fold) }

// ReadAll returns all paths that servers may read; the first is that of Read. The error is a
// [*PathError] if there are too many.
func (p Paths) ReadAll(path string) ([]string, error) {
	if p.once {
		return []string{p.Read(path)}, nil
	}
	all, ok := urlpath.Readings(path, p.fold)
	if !ok {
		return nil, &PathError{cut(path)}
	}
	return all, nil
}

// Unclear reports whether ReadAll may return more than one path.
func (p Paths) Unclear(path string) bool { return !p.once && urlpath.Unclear(path) }

// PathError is a request path with too many readings. The service cannot determine which resource
// the server would serve, so it refuses the request.
type PathError struct {
	Path string // shortened if long
}

// Error returns the path and the problem.
func (e *PathError) Error() string {
	return fmt.Sprintf("path %q: servers may read it in more than %d ways", e.Path, urlpath.MostReadings)
}

// path returns the path, which is normalized already.
func path(_ Attributes, path string) (string, bool) { return path, true }

// readPatterns compiles patterns for readings of a path; at returns pattern i in the document.
func readPatterns(patterns []string, p Paths, at func(i int) strictyaml.Value) (*urlpath.Routes, bool) {
	set, i, err := urlpath.NewRoutes(patterns)
	if err != nil {
		at(i).Fail(err.Error(), badPattern)
		return nil, false
	}
	under, i := set.Under(p.fold)
	if i >= 0 {
		at(i).Fail(fmt.Sprintf("%s is equal to an earlier pattern with these fold settings", patterns[i]),
			"remove one of them")
	}
	return under, true
}

// withQuery returns a reading of the path with the query of the sent path.
func withQuery(path, sent string) string {
	if i := strings.IndexByte(sent, '?'); i >= 0 {
		return path + sent[i:]
	}
	return path
}
