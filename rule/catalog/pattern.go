package catalog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"stint/internal/urlpath"
)

// kind is what a segment of a pattern matches, ordered from most to least specific.
type kind uint8

const (
	literal kind = iota
	class        // {name:regex}
	single       // {name}
)

// end is how a pattern ends, ordered from most to least specific.
type end uint8

const (
	here  end = iota // after its last segment
	one              // after one more arbitrary segment: {name}
	rest             // with everything after a slash: {name...}, or a trailing slash
	below            // after its last segment, or anywhere below it: {/...}
)

// maxSegments is the most segments that a pattern may have.
const maxSegments = 64

// segment is one segment of a pattern. text is the normalized literal or the regular expression,
// and "" for {name}. {$} is a literal with an empty text.
type segment struct {
	kind kind
	text string
	raw  int // position of the text in the url; -1 if the url spells it differently
}

// isEnd reports whether the segment is {$}.
func (s *segment) isEnd() bool { return s.kind == literal && s.text == "" }

// pattern is a parsed url. It can be reused for the next url and then reuses its memory.
type pattern struct {
	method   string
	segments []segment
	end      end
	names    []string

	paths urlpath.Options           // normalization of literals
	known map[string]*regexp.Regexp // compiled classes, each matching a whole segment
}

const belowWord = "{/...}"

// parse parses a url. The error is a *hinted.
func (p *pattern) parse(url string) error {
	p.segments, p.names, p.end, p.method = p.segments[:0], p.names[:0], here, ""
	path := url
	if i := strings.IndexAny(url, " \t/"); i >= 0 && url[i] != '/' {
		p.method, path = url[:i], strings.TrimLeft(url[i:], " \t")
		if p.method == "" || strings.ContainsFunc(p.method, notInToken) {
			return &hinted{fmt.Sprintf("%q is not a method", p.method), "write one such as GET, a blank, and the path"}
		}
		if upper := strings.ToUpper(p.method); upper != p.method {
			return &hinted{fmt.Sprintf("the method %q is not in capitals, so no request has it", p.method), "write " + upper}
		}
	}
	if path == "" || path[0] != '/' {
		return &hinted{fmt.Sprintf("%q does not begin with a slash, or a method and a slash", url), "write a path such as /v1/orders/{id}; use the domain to separate hosts"}
	}
	path, isBelow := strings.CutSuffix(path, belowWord)
	if isBelow && (path == "" || strings.HasSuffix(path, "/")) {
		return &hinted{fmt.Sprintf("%s after a slash in %q", belowWord, url), "a trailing slash already matches everything below"}
	}
	for left, more := path[1:], true; more; {
		raw := len(url) - len(left)
		if isBelow {
			raw -= len(belowWord)
		}
		var one string
		one, left, more = cutSegment(left)
		if p.ended() {
			return &hinted{fmt.Sprintf("%q continues after its end", url), "write {name...} and {$} only at the end"}
		}
		if err := p.add(one, raw, more); err != nil {
			return err
		}
		if len(p.segments) > maxSegments {
			return &hinted{fmt.Sprintf("more than %d segments", maxSegments), "end the pattern earlier with {rest...}"}
		}
	}
	if isBelow && p.ended() {
		return &hinted{fmt.Sprintf("%q has two ends", url), "remove one of them"}
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

// unslash makes the pattern match paths without the trailing slash.
func (p *pattern) unslash() {
	n := len(p.segments)
	if p.end == rest && n > 0 {
		p.end = below
	}
	if n > 1 && p.segments[n-1].isEnd() {
		p.segments = p.segments[:n-1]
	}
}

// ended reports whether no segment may follow.
func (p *pattern) ended() bool {
	return p.end == rest || len(p.segments) > 0 && p.segments[len(p.segments)-1].isEnd()
}

// cutSegment is strings.Cut at the first slash outside braces.
func cutSegment(path string) (one, after string, more bool) {
	depth := 0
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' && depth > 0:
			i++ // an escaped brace belongs to the expression
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

// add parses one segment.
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
		return &hinted{fmt.Sprintf("no path has the segment %q", one), "write the path without empty segments and without . and .."}
	case strings.ContainsAny(one, "{}"):
		return &hinted{fmt.Sprintf("the segment %q is partly a wildcard", one), `a wildcard is a whole segment; use {name:regex} for a part, such as {file:.*\.json}`}
	case strings.ContainsAny(one, "?#"):
		return &hinted{fmt.Sprintf("the segment %q contains a query", one), "a pattern is a path; write ? as %3F if it is part of the path"}
	}
	text := urlpath.String("/"+one, p.paths)[1:]
	if text == "" || strings.Contains(text, "/") {
		return &hinted{fmt.Sprintf("the segment %q is normalized to %q in every path", one, text), "write the normalized form"}
	}
	if text != one {
		raw = -1
	}
	p.segments = append(p.segments, segment{literal, text, raw})
	return nil
}

// addWildcard parses the text inside braces.
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

// name checks the name of a wildcard by the rules of net/http.
func (p *pattern) name(name string) error {
	for i, c := range name {
		if !unicode.IsLetter(c) && c != '_' && (i == 0 || !unicode.IsDigit(c)) {
			return &hinted{fmt.Sprintf("%q is not a valid wildcard name", name), "write a letter, then letters and digits, such as {id}"}
		}
	}
	if name == "" {
		return &hinted{"a wildcard without a name", "write one such as {id}"}
	}
	if slices.Contains(p.names, name) {
		return &hinted{fmt.Sprintf("two wildcards have the name %s", name), "give each its own name"}
	}
	p.names = append(p.names, name)
	return nil
}

// compile compiles the regular expression of a class, unless it is cached.
func (p *pattern) compile(regex string) error {
	if digits(regex) || p.known[regex] != nil {
		return nil
	}
	if regex == "" {
		return &hinted{"a wildcard with an empty expression", "write one after the colon, or remove the colon"}
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

// digits reports whether a class is matched without a regular expression.
func digits(regex string) bool { return regex == `[0-9]+` || regex == `\d+` }

func notInToken(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
}
