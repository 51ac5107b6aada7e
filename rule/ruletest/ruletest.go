// Package ruletest reads and runs rule tests: requests to the rules of a file, with their times and
// the expected decisions. `stint check` runs them.
//
// Tests are next to the rules, in files whose names end in _test.yaml:
//
//	tests:
//	- name: five pass, the sixth waits for the next minute
//	domain: auth
//	start: 2026-01-01T00:00:00Z
//	steps:
//	- {at: 0s, times: 5, descriptor: {key: auth_type, value: login}, expect: allow}
//	- {at: 10s, descriptor: {key: auth_type, value: login}, expect: deny, rule: auth/auth_type=login, retry_after: 50s}
//	- {at: 60s, request: {method: POST, path: /login, address: 192.0.2.1}, expect: allow, remaining: 4}
package ruletest

import (
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/internal/strictyaml"
	"stint/internal/strictyaml/parser"
	"stint/rule"
	"stint/rule/rulefile"
)

// Test is one rule test. It begins with fresh state at Start, by default 2026-01-01T00:00:00Z.
type Test struct {
	Name   string
	Domain string
	Start  stint.Instant
	File   string
	Line   int
	Steps  []Step
}

// Step is one request of a rule test with its expected decisions.
type Step struct {
	File string
	Line int

	// At is the time of the request, and Times how often it is sent then (default 1). Cost is the
	// cost of each; nil: that of the descriptors.
	At    time.Duration
	Times uint32
	Cost  *uint32

	// Descriptors are decided as one call: `descriptor` is one of them, an entry or a list of
	// entries, and `descriptors` is a list of such. They are empty if Request is set; then the
	// domain's http section makes the descriptors.
	Descriptors []rule.Descriptor
	Request     *Request

	// Allow is the value of `expect`.
	Allow bool

	// Answer is the status of the response to each allowed request, before the next one; 0: there
	// is no response, and limits that count responses charge at once.
	Answer int

	// Rule, Remaining, RetryAfter and Over are nil if the step does not have them. Rule is the name
	// of the rule of the decision, "" for none. They are the expected values for the last of Times
	// decisions. RetryAfter is [stint.Never] for never.
	Rule       *string
	Remaining  *int64
	RetryAfter *time.Duration
	Over       *bool
}

// zero is the default time at which tests begin.
var zero = stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// Parse reads files of rule tests. On any fault it returns a [*rule.Errors] with
// every fault of every file.
func Parse(sources ...rulefile.Source) ([]*Test, error) {
	var tests []*Test
	var errs rule.Errors
	for _, src := range sources {
		doc := parser.Parse(src.Data)
		if len(doc.Faults()) == 0 {
			p := caseReader{file: src.Name, doc: doc}
			tests = append(tests, p.tests()...)
			doc.RefuseOctals()
		}
		for _, fault := range doc.Faults() {
			errs.List = append(errs.List, &rule.Error{File: src.Name, Line: fault.Line, Problem: fault.Problem, Hint: fault.Hint})
		}
	}
	if len(errs.List) > 0 {
		return nil, &errs
	}
	return tests, nil
}

// caseReader reads one file of rule tests.
type caseReader struct {
	file string
	doc  *strictyaml.Document
}

// ofRules are words at the top of a file of rules.
var ofRules = []string{"domain", "descriptors", "http", "exempt", "deny", "atomic", "key", "rate_limit"}

func (p *caseReader) tests() []*Test {
	var tests []*Test
	list := true
	known := p.doc.Root().Object("a file of rule tests", strictyaml.Words{"tests": func(v strictyaml.Value) {
		list = v.IsList() || v.IsNull()
		for _, element := range v.List() {
			tests = append(tests, p.test(element))
		}
	}}, func(word string) string {
		if slices.Contains(ofRules, word) {
			return "rules stand in a file of their own, whose name does not end in _test.yaml"
		}
		return ""
	})
	if len(tests) == 0 && list && known {
		p.doc.Fail(1, "no test in the file", "begin it with `tests:` and a list")
	}
	return tests
}

func (p *caseReader) test(v strictyaml.Value) *Test {
	t := &Test{Start: zero, File: p.file, Line: v.Line()}
	known := v.Object("a test", strictyaml.Words{
		"name":   func(v strictyaml.Value) { t.Name = v.Text() },
		"domain": func(v strictyaml.Value) { t.Domain = v.Text() },
		"start":  func(v strictyaml.Value) { t.Start = readInstant(v) },
		"steps": func(v strictyaml.Value) {
			for _, element := range v.List() {
				t.Steps = append(t.Steps, p.step(element))
			}
		},
	})
	switch {
	case !known:
	case t.Domain == "":
		v.Fail("a test without a domain", "add `domain:`, whose rules are asked")
	case len(t.Steps) == 0:
		v.Fail("a test without steps", "add `steps:` and a list")
	}
	for i := 1; i < len(t.Steps); i++ {
		if t.Steps[i].At < t.Steps[i-1].At {
			p.doc.Fail(t.Steps[i].Line, fmt.Sprintf("at: %v is before the step above it", t.Steps[i].At), "steps stand in the order of their times")
		}
	}
	return t
}

func readInstant(v strictyaml.Value) stint.Instant {
	t, err := time.Parse(time.RFC3339Nano, v.Text())
	if at := stint.At(t); err == nil && at > 0 && at <= stint.MaxInstant {
		return at
	}
	v.Fail(fmt.Sprintf("%q is no time from 1970 to 2112", v.Text()), "write it such as 2026-01-01T00:00:00Z")
	return zero
}

func (p *caseReader) step(v strictyaml.Value) Step {
	s := Step{File: p.file, Line: v.Line(), Times: 1}
	said := map[string]bool{}
	words := strictyaml.Words{
		"at":          func(v strictyaml.Value) { s.At = readDuration(v) },
		"times":       func(v strictyaml.Value) { s.Times = uint32(v.Uint(1_000_000)) },
		"cost":        func(v strictyaml.Value) { n := v.Uint32(); s.Cost = &n },
		"descriptor":  func(v strictyaml.Value) { s.Descriptors = []rule.Descriptor{readDescriptor(v)} },
		"descriptors": func(v strictyaml.Value) { s.Descriptors = readDescriptors(v) },
		"request":     func(v strictyaml.Value) { s.Request = readRequest(v) },
		"expect": func(v strictyaml.Value) {
			i, _ := v.OneOf("allow", "deny")
			s.Allow = i == 0
		},
		"rule":        func(v strictyaml.Value) { text := v.Text(); s.Rule = &text },
		"remaining":   func(v strictyaml.Value) { n := int64(v.Uint(1 << 40)); s.Remaining = &n },
		"retry_after": func(v strictyaml.Value) { d := readRetry(v); s.RetryAfter = &d },
		"over":        func(v strictyaml.Value) { over := v.Bool(); s.Over = &over },
		"answer":      func(v strictyaml.Value) { s.Answer = readStatus(v) },
	}
	for word, read := range words {
		words[word] = func(v strictyaml.Value) {
			said[word] = true
			read(v)
		}
	}
	if known := v.Object("a step", words); !known {
		return s
	}
	asks := 0
	for _, word := range []string{"descriptor", "descriptors", "request"} {
		if said[word] {
			asks++
		}
	}
	switch {
	case asks != 1:
		v.Fail("a step asks one thing", "give it one of descriptor, descriptors and request")
	case !said["expect"]:
		v.Fail("a step that expects nothing", "add expect: allow, or expect: deny")
	case said["times"] && s.Times == 0:
		v.Fail("times: 0 asks nothing", "write 1 or more, or leave it out")
	case said["retry_after"] && s.Allow:
		v.Fail("retry_after beside expect: allow", "only a denied request waits; leave it out")
	case said["answer"] && !s.Allow:
		v.Fail("answer beside expect: deny", "what is denied reaches nobody who answers; leave it out")
	}
	return s
}

func readDuration(v strictyaml.Value) time.Duration {
	d, err := rule.ParseDuration(v.Text())
	if err != nil {
		v.Fail(fmt.Sprintf("%s: %q is %v", v.Word(), v.Text(), err), "write a duration such as 0s, 250ms, 15m or 1d")
	}
	return d
}

// readStatus reads a status of HTTP.
func readStatus(v strictyaml.Value) int {
	const least, most = 100, 599
	status := v.Uint(most)
	if status > 0 && status < least || v.Text() == "0" {
		v.Fail(fmt.Sprintf("answer: %s is no status of HTTP", v.Text()), fmt.Sprintf("write %d to %d, such as 200 or 401", least, most))
	}
	return int(status)
}

func readRetry(v strictyaml.Value) time.Duration {
	if v.Text() == "never" {
		return stint.Never
	}
	return readDuration(v)
}

func readDescriptors(v strictyaml.Value) []rule.Descriptor {
	var list []rule.Descriptor
	for _, element := range v.List() {
		list = append(list, readDescriptor(element))
	}
	if len(list) == 0 && (v.IsList() || v.IsNull()) {
		v.Fail("descriptors is an empty list", "write a list of descriptors, each a list of entries")
	}
	return list
}

func readDescriptor(v strictyaml.Value) rule.Descriptor {
	d := rule.Descriptor{Cost: 1}
	for _, element := range v.OneOrList() {
		var e rule.Entry
		known := element.Object("an entry", strictyaml.Words{
			"key":   func(v strictyaml.Value) { e.Key = v.Text() },
			"value": func(v strictyaml.Value) { e.Value = v.Text() },
		})
		if e.Key == "" && known {
			element.Fail("an entry without a key", "write {key: NAME, value: TEXT}")
		}
		d.Entries = append(d.Entries, e)
	}
	if len(d.Entries) == 0 {
		v.Fail("a descriptor without entries", "write {key: NAME, value: TEXT}, or a list of such")
	}
	return d
}
