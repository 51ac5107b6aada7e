package catalog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"stint/internal/urlpath"
)

// kind is what a segment of a pattern matches, the most specific first.
type kind uint8

const (
	literal kind = iota
	class        // {name:regex}
	single       // {name}
)

// end is where a pattern ends, the most specific first.
type end uint8

const (
	here  end = iota // with its last segment
	one              // with one more segment, which is any: {name}
	rest             // with all that follows a slash: {name...}, or the slash alone
	below            // with its last segment or anything below it: {/...}
)

// maxSegments is the most segments of a pattern.
const maxSegments = 64

// segment is one segment of a pattern: the text in its one spelling, or the regular
// expression; "" for {name}. {$} is a literal without a text.
type segment struct {
	kind kind
	text string
	raw  int // where the text is in the url; -1 where it is spelled differently there
}

// isEnd reports whether it is {$}.
func (s *segment) isEnd() bool { return s.kind == literal && s.text == "" }

// pattern is a url, taken apart. It is good for one after the other, and keeps its
// memory.
type pattern struct {
	method   string
	segments []segment
	end      end
	names    []string

	paths urlpath.Options           // by which literals are spelled
	known map[string]*regexp.Regexp // of classes, each for a whole segment
}

const belowWord = "{/...}"

// parse reads a url. The fault is a *hinted.
func (p *pattern) parse(url string) error {
	p.segments, p.names, p.end, p.method = p.segments[:0], p.names[:0], here, ""
	path := url
	if i := strings.IndexAny(url, " \t/"); i >= 0 && url[i] != '/' {
		p.method, path = url[:i], strings.TrimLeft(url[i:], " \t")
		if p.method == "" || strings.ContainsFunc(p.method, notInToken) {
			return &hinted{fmt.Sprintf("%q is no method", p.method), "write one such as GET, a blank, and the path"}
		}
		if upper := strings.ToUpper(p.method); upper != p.method {
			return &hinted{fmt.Sprintf("the method %q is not in capitals, so no request has it", p.method), "write " + upper}
		}
	}
	if path == "" || path[0] != '/' {
		return &hinted{fmt.Sprintf("%q does not begin with a slash, or a method and a slash", url), "write a path such as /v1/orders/{id}; hosts are told apart by the domain"}
	}
	path, isBelow := strings.CutSuffix(path, belowWord)
	if isBelow && (path == "" || strings.HasSuffix(path, "/")) {
		return &hinted{fmt.Sprintf("%s behind a slash in %q", belowWord, url), "a slash at the end already is all that follows"}
	}
	for left, more := path[1:], true; more; {
		raw := len(url) - len(left)
		if isBelow {
			raw -= len(belowWord)
		}
		var one string
		one, left, more = cutSegment(left)
		if p.ended() {
			return &hinted{fmt.Sprintf("%q goes on behind its end", url), "{name...} and {$} stand at the end"}
		}
		if err := p.add(one, raw, more); err != nil {
			return err
		}
		if len(p.segments) > maxSegments {
			return &hinted{fmt.Sprintf("more than %d segments", maxSegments), "end the pattern earlier with {rest...}"}
		}
	}
	if isBelow && p.ended() {
		return &hinted{fmt.Sprintf("%q has two ends", url), "leave one of them out"}
	}
	if isBelow {
		p.end = below
	}
	if p.paths.TrailingSlash {
		p.unslash()
	}
	if n := len(p.segments); p.end == here && p.segments[n-1].kind == single {
		p.segments, p.end = p.segments[:n-1], one
	}
	return nil
}

// unslash makes the pattern one of paths without a slash at their end.
func (p *pattern) unslash() {
	n := len(p.segments)
	if p.end == rest && n > 0 {
		p.end = below
	}
	if n > 1 && p.segments[n-1].isEnd() {
		p.segments = p.segments[:n-1]
	}
}

// ended reports whether nothing can follow.
func (p *pattern) ended() bool {
	return p.end == rest || len(p.segments) > 0 && p.segments[len(p.segments)-1].isEnd()
}

// cutSegment is strings.Cut at the first slash that is not in braces.
func cutSegment(path string) (one, after string, more bool) {
	depth := 0
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' && depth > 0:
			i++ // a brace behind it is one of the expression
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '/' && depth <= 0:
			return path[:i], path[i+1:], true
		}
	}
	return path, "", false
}

// add adds one segment.
func (p *pattern) add(one string, raw int, more bool) error {
	switch {
	case one == "" && !more:
		p.end = rest
		return nil
	case one == "{$}":
		p.segments = append(p.segments, segment{})
		return nil
	case strings.HasPrefix(one, "{") && strings.HasSuffix(one, "}"):
		return p.addWildcard(one[1 : len(one)-1])
	case one == "", one == ".", one == "..":
		return &hinted{fmt.Sprintf("the segment %q never is in a path", one), "write the path without empty segments and without . and .."}
	case strings.ContainsAny(one, "{}"):
		return &hinted{fmt.Sprintf("the segment %q is partly a wildcard", one), `a wildcard is a whole segment; {name:regex} says more, such as {file:.*\.json}`}
	case strings.ContainsAny(one, "?#"):
		return &hinted{fmt.Sprintf("the segment %q holds a query", one), "a pattern is a path; write ? as %3F where it is part of one"}
	}
	text := urlpath.String("/"+one, p.paths)[1:]
	if text == "" || strings.Contains(text, "/") {
		return &hinted{fmt.Sprintf("the segment %q is spelled %q in every path", one, text), "write the pattern as its paths are spelled"}
	}
	if text != one {
		raw = -1
	}
	p.segments = append(p.segments, segment{literal, text, raw})
	return nil
}

// addWildcard adds what stands in braces.
func (p *pattern) addWildcard(inner string) error {
	if name, isRest := strings.CutSuffix(inner, "..."); isRest {
		p.end = rest
		return p.name(name)
	}
	name, regex, isClass := strings.Cut(inner, ":")
	s := segment{kind: single}
	if isClass {
		s = segment{kind: class, text: regex}
		if err := p.compile(regex); err != nil {
			return err
		}
	}
	p.segments = append(p.segments, s)
	return p.name(name)
}

// name checks the name of a wildcard, as net/http does.
func (p *pattern) name(name string) error {
	for i, c := range name {
		if !unicode.IsLetter(c) && c != '_' && (i == 0 || !unicode.IsDigit(c)) {
			return &hinted{fmt.Sprintf("%q is no name of a wildcard", name), "write a letter, then letters and digits, such as {id}"}
		}
	}
	if name == "" {
		return &hinted{"a wildcard without a name", "write one such as {id}"}
	}
	if slices.Contains(p.names, name) {
		return &hinted{fmt.Sprintf("two wildcards are called %s", name), "give each its own name"}
	}
	p.names = append(p.names, name)
	return nil
}

// compile makes the regular expression of a class, unless it is known.
func (p *pattern) compile(regex string) error {
	if digits(regex) || p.known[regex] != nil {
		return nil
	}
	if regex == "" {
		return &hinted{"a wildcard with an empty expression", "write one behind the colon, or leave the colon out"}
	}
	if _, err := regexp.Compile(regex); err != nil {
		return &hinted{strings.Replace(err.Error(), "error parsing regexp", "the regular expression does not compile", 1), "write one of RE2 (https://github.com/google/re2/wiki/Syntax)"}
	}
	whole, err := regexp.Compile(`\A(?:` + regex + `)\z`)
	if err != nil {
		return &hinted{err.Error(), "write it shorter"}
	}
	if p.known == nil {
		p.known = map[string]*regexp.Regexp{}
	}
	p.known[regex] = whole
	return nil
}

// digits reports whether a class is asked without a regular expression.
func digits(regex string) bool { return regex == `[0-9]+` || regex == `\d+` }

func notInToken(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
}
