package urlpath

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Routes is a set of patterns, for example "GET /users/{id}", "/static/" and "/a/{rest...}". They
// have the meaning of net/http's ServeMux: a method is optional and GET includes HEAD, {name} is
// one segment, {name...} and a slash at the end match the rest of the path, {$} matches the end,
// and the most specific pattern wins. Hosts are not supported. Routes is immutable and safe for
// concurrent use; the zero Routes matches nothing.
type Routes struct {
	patterns []string
	options  Options
	methods  map[string]*node
}

// node is one segment of the patterns of a method.
type node struct {
	literals map[string]*node
	single   *node  // {name}
	rest     string // the pattern that matches the rest of the path, "" if there is none
	here     string // the pattern that ends here
}

// NewRoutes returns the set of the patterns. If a pattern is invalid, it returns its index and the
// reason: a syntax error, a duplicate, or an overlap with another pattern of which neither is more
// specific.
func NewRoutes(patterns []string) (*Routes, int, error) {
	mux := http.NewServeMux()
	for i, p := range patterns {
		if _, path := split(p); !strings.HasPrefix(path, "/") {
			return nil, i, fmt.Errorf("%q does not begin with a slash, or a method and a slash", p)
		}
		if err := try(mux, p); err != nil {
			return nil, i, err
		}
	}
	s, _ := (&Routes{patterns: slices.Clone(patterns)}).Under(Options{})
	return s, -1, nil
}

// Under returns the set for paths that are clean under some options, and the index of the first
// pattern that these options make equal to an earlier one, -1 if there is none. Such a pattern
// never matches.
func (s *Routes) Under(o Options) (set *Routes, double int) {
	set, double = &Routes{s.patterns, o, map[string]*node{}}, -1
	for i, p := range s.patterns {
		method, path := split(p)
		root := set.methods[method]
		if root == nil {
			root = &node{}
			set.methods[method] = root
		}
		if !root.add(set.spelled(path), p) && double < 0 {
			double = i
		}
	}
	if o.TrailingSlash {
		for _, root := range set.methods {
			root.endEarlier(true)
		}
	}
	return set, double
}

// spelled returns the path of a pattern with its literals as in clean paths.
func (s *Routes) spelled(path string) string {
	segments := strings.Split(path, "/")
	for i, one := range segments {
		if !strings.HasPrefix(one, "{") {
			segments[i] = strings.TrimPrefix(String("/"+one, s.options), "/")
		}
	}
	return strings.Join(segments, "/")
}

// registered matches the part of a net/http error about the line that registered a pattern.
var registered = regexp.MustCompile(` ?\(registered at [^)]*\)|^http: `)

// try adds the pattern to a net/http mux, so that the same rules apply.
func try(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			text := registered.ReplaceAllString(fmt.Sprint(r), "")
			err = errors.New(strings.Join(strings.Fields(text), " "))
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// split splits a pattern into its method and its path.
func split(pattern string) (method, path string) {
	i := strings.IndexAny(pattern, " \t")
	if i < 0 {
		return "", pattern
	}
	return pattern[:i], strings.TrimLeft(pattern[i:], " \t")
}

// add adds a pattern. It returns false if another pattern has the same place.
func (n *node) add(path, pattern string) bool {
	for rest := path[1:]; ; {
		segment, after, more := strings.Cut(rest, "/")
		switch {
		case segment == "{$}":
			return set(&n.child("").here, pattern)
		case strings.HasSuffix(segment, "...}"), segment == "" && !more:
			return set(&n.rest, pattern)
		case strings.HasPrefix(segment, "{"):
			if n.single == nil {
				n.single = &node{}
			}
			n = n.single
		default:
			n = n.child(segment)
		}
		if !more {
			return set(&n.here, pattern)
		}
		rest = after
	}
}

// set stores a pattern in place, and returns false if there already is one.
func set(place *string, pattern string) bool {
	if *place != "" {
		return false
	}
	*place = pattern
	return true
}

// endEarlier makes patterns that end with a slash match without the slash too.
func (n *node) endEarlier(root bool) {
	for _, c := range n.literals {
		c.endEarlier(false)
	}
	if n.single != nil {
		n.single.endEarlier(false)
	}
	if root {
		return // the slash is the whole path
	}
	if empty := n.literals[""]; empty != nil {
		set(&n.here, empty.here)
	}
	set(&n.here, n.rest)
}

// child returns the node of a literal segment, creating it.
func (n *node) child(segment string) *node {
	c := n.literals[segment]
	if c == nil {
		c = &node{}
		if n.literals == nil {
			n.literals = map[string]*node{}
		}
		n.literals[segment] = c
	}
	return c
}

// Match returns the pattern for a method and a path that is clean under the options of the set.
func (s *Routes) Match(method, path string) (pattern string, ok bool) {
	if s == nil || path == "" || path[0] != '/' {
		return "", false
	}
	for _, m := range [...]string{method, head(method), ""} {
		if n := s.methods[m]; n != nil {
			if pattern := n.match(path[1:]); pattern != "" {
				return pattern, true
			}
		}
	}
	return "", false
}

// head returns the method whose patterns also match HEAD requests.
func head(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// match returns the pattern for the rest of a path after a slash, "" if there is none. It tries
// literals first, then wildcards, then patterns for the whole rest: from the most specific to the
// least.
func (n *node) match(rest string) string {
	segment, after, more := strings.Cut(rest, "/")
	if c := n.literals[segment]; c != nil {
		if found := c.next(after, more); found != "" {
			return found
		}
	}
	if n.single != nil && segment != "" {
		if found := n.single.next(after, more); found != "" {
			return found
		}
	}
	return n.rest
}

// next continues below a segment that matched, or ends there.
func (n *node) next(after string, more bool) string {
	if more {
		return n.match(after)
	}
	return n.here
}

// RoutePath returns the clean path for [Routes.Match] under no options.
func RoutePath(path string) string { return String(path, Options{}) }
