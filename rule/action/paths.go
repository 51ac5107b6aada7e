package action

import (
	"fmt"
	"strings"

	"stint/internal/strictyaml"
	"stint/internal/urlpath"
)

// Paths says how the path of a request is read: which spellings the server behind
// takes for one. The zero Paths read a path as RFC 3986 has it, and one that some
// servers read otherwise also as these do: such a request counts under every reading, so
// that it cannot choose.
type Paths struct {
	fold urlpath.Options
	once bool // a path that some servers read otherwise is not read again
}

// ReadPaths compiles `path` of the http section. What is wrong with it is reported to
// its document.
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

// String returns what is folded, for people and tests; "" for the zero Paths.
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

// Read returns the path by what the file says alone, in its one spelling.
func (p Paths) Read(path string) string { return urlpath.String(path, p.fold) }

// ReadAll returns all paths that servers may take one for, the first as Read has it. The
// error is a [*PathError]: there are too many.
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

// PathError says that servers may take the path of a request for too many others. Nobody
// can say what such a request reaches, so it is refused rather than let pass for less.
type PathError struct {
	Path string // cut where it is long
}

// Error says what is wrong with the path.
func (e *PathError) Error() string {
	return fmt.Sprintf("path %q: servers may read it in more than %d ways", e.Path, urlpath.MostReadings)
}

// path returns the path in its one spelling.
func path(_ Attributes, path string) (string, bool) { return path, true }

// readPatterns compiles patterns for readings of a path; at says where one of them stands.
func readPatterns(patterns []string, p Paths, at func(i int) strictyaml.Value) (*urlpath.Routes, bool) {
	set, i, err := urlpath.NewRoutes(patterns)
	if err != nil {
		at(i).Fail(err.Error(), badPattern)
		return nil, false
	}
	under, i := set.Under(p.fold)
	if i >= 0 {
		at(i).Fail(fmt.Sprintf("%s is the same as a pattern before it, by the words of fold", patterns[i]),
			"leave one of them out")
	}
	return under, true
}

// withQuery returns a reading of the path with the query of what was sent.
func withQuery(path, sent string) string {
	if i := strings.IndexByte(sent, '?'); i >= 0 {
		return path + sent[i:]
	}
	return path
}
