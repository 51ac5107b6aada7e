package action

import (
	"fmt"
	"strings"

	"stint/internal/route"
	"stint/internal/strictyaml"
	"stint/internal/urlpath"
)

// Paths says how the path of a request is read: which spellings the server behind
// takes for one. The zero Paths read a path as RFC 3986 has it, and one that some
// servers read otherwise also as these do: such a request counts under both, so that
// it cannot choose.
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

// again returns the widest reading of a path.
func (p Paths) again() urlpath.Options {
	o := urlpath.All
	o.Case, o.TrailingSlash = p.fold.Case, p.fold.TrailingSlash
	return o
}

// Unclear says whether a path may have to be read again, in the widest way.
func (p Paths) Unclear(path string) bool { return !p.once && urlpath.Unclear(path) }

// ofPath makes a the action of what read makes of the path's reading.
func (a *action) ofPath(read func(o urlpath.Options) func(Attributes) (string, bool)) {
	a.value = read(a.paths.fold)
	if !a.paths.once {
		a.again = read(a.paths.again())
	}
}

// path says the path in its one spelling.
func path(o urlpath.Options) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) { return urlpath.String(a.Path(), o), true }
}

// pattern says the pattern that the request belongs to.
func pattern(set *route.Set) func(urlpath.Options) func(Attributes) (string, bool) {
	return func(o urlpath.Options) func(Attributes) (string, bool) {
		under, _ := set.Under(o)
		return func(a Attributes) (string, bool) { return under.Match(a.Method(), urlpath.String(a.Path(), o)) }
	}
}

// readPatterns compiles patterns, of which at says where one of them stands.
func readPatterns(patterns []string, p Paths, at func(i int) strictyaml.Value) (*route.Set, bool) {
	set, i, err := route.NewSet(patterns)
	if err != nil {
		at(i).Fail(err.Error(), badPattern)
		return nil, false
	}
	if _, i := set.Under(p.fold); i >= 0 {
		at(i).Fail(fmt.Sprintf("%s is the same as a pattern before it, by the words of fold", patterns[i]),
			"leave one of them out")
	}
	return set, true
}

// atPath is what a matcher of :path tests: the one spelling of the path, and the query.
func atPath(value string, o urlpath.Options) string {
	i := strings.IndexByte(value, '?')
	if i < 0 {
		return urlpath.String(value, o)
	}
	return urlpath.String(value[:i], o) + value[i:]
}
