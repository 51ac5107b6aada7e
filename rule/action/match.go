package action

import (
	"regexp"
	"strings"

	"stint/internal/strictyaml"
)

// matched returns a function with a fixed value for requests whose headers match (expect), or do
// not match (!expect).
func matched(matchers []matcher, expect bool, value string) func(Attributes, string) (string, bool) {
	return func(a Attributes, path string) (string, bool) {
		for i := range matchers {
			if !matchers[i].matches(a, path) {
				return value, !expect
			}
		}
		return value, expect
	}
}

// matcher is a condition on one header.
type matcher struct {
	name   string
	test   func(value string) bool // nil: the header is present
	absent bool                    // with test nil: the header is missing
	invert bool
	fold   bool // ignore case
}

// matches applies Envoy's rule: a missing header matches only a test for being missing. For :path
// it tests one reading, with the query.
func (m *matcher) matches(a Attributes, path string) bool {
	value, ok := a.Header(m.name)
	if strings.EqualFold(m.name, ":path") {
		value = withQuery(path, value)
	}
	switch {
	case m.test == nil:
		return ok != (m.absent != m.invert)
	case !ok:
		return false
	}
	if m.fold {
		value = strings.ToLower(value)
	}
	return m.test(value) != m.invert
}

// tests create the test of a header from the text in the rule file.
var tests = map[string]func(text string) (func(string) bool, error){
	"exact": func(t string) (func(string) bool, error) { return func(v string) bool { return v == t }, nil },
	"prefix": func(t string) (func(string) bool, error) {
		return func(v string) bool { return strings.HasPrefix(v, t) }, nil
	},
	"suffix": func(t string) (func(string) bool, error) {
		return func(v string) bool { return strings.HasSuffix(v, t) }, nil
	},
	"contains": func(t string) (func(string) bool, error) {
		return func(v string) bool { return strings.Contains(v, t) }, nil
	},
	"regex": func(t string) (func(string) bool, error) {
		if _, err := regexp.Compile(t); err != nil {
			return nil, err
		}
		re, err := regexp.Compile(`\A(?:` + t + `)\z`) // match the whole value, as Envoy does
		return re.MatchString, err
	},
}

// readMatcher reads a condition on a header, in the short notation or in Envoy's.
func readMatcher(v strictyaml.Value) matcher {
	var m matcher
	count := 0
	var kind, text string
	var at strictyaml.Value
	set := func(name string) func(strictyaml.Value) {
		return func(v strictyaml.Value) { kind, text, at, count = name, v.Text(), v, count+1 }
	}
	present := func(v strictyaml.Value) { m.absent, count = !v.Bool(), count+1 }
	words := strictyaml.Words{
		"name":    func(v strictyaml.Value) { m.name = HeaderName(v) },
		"present": present, "present_match": present,
		"invert": func(v strictyaml.Value) { m.invert = v.Bool() }, "invert_match": func(v strictyaml.Value) { m.invert = v.Bool() },
		"ignore_case": func(v strictyaml.Value) { m.fold = v.Bool() },
	}
	regex := func(v strictyaml.Value) {
		v.Object("safe_regex", strictyaml.Words{"regex": set("regex"), "google_re2": func(strictyaml.Value) {}})
	}
	inner := strictyaml.Words{"safe_regex": regex, "ignore_case": words["ignore_case"]}
	for kind := range tests {
		words[kind], inner[kind] = set(kind), set(kind)
		words[kind+"_match"] = set(kind)
	}
	delete(words, "regex_match")
	words["safe_regex_match"] = regex
	words["string_match"] = func(v strictyaml.Value) { v.Object("string_match", inner) }
	known := v.Object("a header match", words)
	if m.name == "" && known {
		v.Fail("a header match without name", "add `name:`, the header to test")
	}
	if count > 1 {
		v.Fail("a header match with two conditions", "begin each condition with `- `; all of them must match")
	}
	if kind != "" {
		m.compile(kind, text, at)
	}
	return m
}

// compile sets the test of a matcher.
func (m *matcher) compile(kind, text string, at strictyaml.Value) {
	if m.fold {
		if kind == "regex" {
			text = "(?i:" + text + ")"
		} else {
			text = strings.ToLower(text)
		}
	}
	test, err := tests[kind](text)
	if err != nil {
		at.Fail(strings.Replace(err.Error(), "error parsing regexp", "the regular expression does not compile", 1), "write one of RE2 (https://github.com/google/re2/wiki/Syntax)")
		return
	}
	m.test = test
}
