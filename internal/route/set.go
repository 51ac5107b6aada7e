package route

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// Set is a set of patterns, such as "GET /users/{id}", "/static/" and "/a/{rest...}".
// They mean what they mean to net/http's ServeMux: a method is optional and GET
// covers HEAD, {name} is one segment, {name...} and a slash at the end are all that
// follows, {$} is the end, and the most specific pattern wins. Hosts are left out. A
// Set is immutable and safe for concurrent use; the zero Set matches nothing.
type Set struct{ methods map[string]*node }

// node is one segment of the patterns of a method.
type node struct {
	literals map[string]*node
	single   *node  // {name}
	rest     string // the pattern that takes all that follows, "" if there is none
	here     string // the pattern that ends here
}

// builder makes a set.
type builder struct {
	set *Set
	mux *http.ServeMux
}

// NewSet returns the set of the patterns. Where one of them is wrong, it returns its
// index and the reason: it is no pattern, it is there already, or it overlaps another
// while neither is the more specific.
func NewSet(patterns []string) (*Set, int, error) {
	b := builder{set: &Set{methods: map[string]*node{}}, mux: http.NewServeMux()}
	for i, p := range patterns {
		if err := b.add(p); err != nil {
			return nil, i, err
		}
	}
	return b.set, -1, nil
}

func (b *builder) add(pattern string) error {
	method, path := split(pattern)
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%q does not begin with a slash, or a method and a slash", pattern)
	}
	if err := b.try(pattern); err != nil {
		return err
	}
	root := b.set.methods[method]
	if root == nil {
		root = &node{}
		b.set.methods[method] = root
	}
	root.add(path, pattern)
	return nil
}

// registered is what net/http says about the place where it was told a pattern.
var registered = regexp.MustCompile(` ?\(registered at [^)]*\)|^http: `)

// try asks net/http whether the pattern is one and fits beside the others, so that
// its rules are ours.
func (b *builder) try(pattern string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			text := registered.ReplaceAllString(fmt.Sprint(r), "")
			err = errors.New(strings.Join(strings.Fields(text), " "))
		}
	}()
	b.mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// split separates the method of a pattern from its path.
func split(pattern string) (method, path string) {
	i := strings.IndexAny(pattern, " \t")
	if i < 0 {
		return "", pattern
	}
	return pattern[:i], strings.TrimLeft(pattern[i:], " \t")
}

func (n *node) add(path, pattern string) {
	for rest := path[1:]; ; {
		segment, after, more := strings.Cut(rest, "/")
		switch {
		case segment == "{$}":
			n.child("").here = pattern
			return
		case strings.HasSuffix(segment, "...}"), segment == "" && !more:
			n.rest = pattern
			return
		case strings.HasPrefix(segment, "{"):
			if n.single == nil {
				n.single = &node{}
			}
			n = n.single
		default:
			n = n.child(Clean("/" + segment)[1:])
		}
		if !more {
			n.here = pattern
			return
		}
		rest = after
	}
}

// child returns the node of a literal segment, made if there is none.
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

// Match returns the pattern for a method and a path that [Clean] returned.
func (s *Set) Match(method, path string) (pattern string, ok bool) {
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

// head returns the method whose patterns cover a HEAD request as well.
func head(method string) string {
	if method == http.MethodHead {
		return http.MethodGet
	}
	return method
}

// match returns the pattern for the rest of a path after a slash, "" if there is
// none. Literals come before wildcards and these before what takes all, which is
// the order from the most specific.
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

// next goes on below a segment that matched, or ends there.
func (n *node) next(after string, more bool) string {
	if more {
		return n.match(after)
	}
	return n.here
}
