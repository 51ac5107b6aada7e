package rulefile

import (
	"fmt"
	"slices"

	"stint/internal/strictyaml"
	"stint/internal/strictyaml/parser"
	"stint/rule"
	"stint/rule/hint"
)

// compiler turns rule files into a table, and collects all that is wrong with them.
type compiler struct {
	contents rule.Contents
	begun    map[string]*domain // by name
	files    []Source           // of lists, as they were read
	errors   rule.Errors
}

// domain is a domain that a file has begun, and that others may add to.
type domain struct {
	*rule.Draft
	names map[string]bool // of its rules, as users see them
}

func newCompiler() *compiler { return &compiler{begun: map[string]*domain{}} }

// finish returns the table, for files without faults.
func (c *compiler) finish(hash string) *rule.Table {
	c.contents.Hash, c.contents.Files = hash, c.names()
	return rule.NewTable(c.contents)
}

// names returns the files that the rules name, each once.
func (c *compiler) names() []string {
	var names []string
	for _, f := range c.files {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// fileCompiler compiles one file, which is one domain.
type fileCompiler struct {
	doc       *strictyaml.Document
	domain    *domain
	defaults  policy
	rules     []*rule.Rule
	borrowers []borrower
	refused   bool // a rule, which may be one that others name
	compiler  *compiler
	merge     bool
	atomic    *strictyaml.Value // as the file says it
	first     *domain           // what the file adds to; nil: it begins its domain
	warnings  []rule.Warning
	folder    string        // of the files that the rules name
	files     []Source      // of lists, as they were read
	errors    []*rule.Error // in those
}

// parse reads a file as its source says.
func parse(src Source) *strictyaml.Document {
	if src.Envoy {
		return parser.ParseLoose(src.Data, envoyWords...)
	}
	return parser.Parse(src.Data)
}

// file compiles one file into the table.
func (c *compiler) file(src Source) {
	f := &fileCompiler{
		doc:      parse(src),
		domain:   &domain{Draft: rule.NewDraft(src.Name), names: map[string]bool{}},
		folder:   src.Folder,
		compiler: c, merge: src.Merge,
	}
	f.domain.Atomic = !src.Envoy
	if len(f.doc.Faults()) == 0 {
		f.top()
		if first := c.begun[f.domain.Name]; first != nil && f.first == nil {
			f.doc.Fail(f.domain.Line, fmt.Sprintf("domain %q stands in two files; the other is %s", f.domain.Name, rule.Place(first.File, first.Line)),
				"put all descriptors of a domain into one file, name one of the domains otherwise, or set rules-merge")
		}
	}
	for _, fault := range f.doc.Faults() {
		c.errors.List = append(c.errors.List, &rule.Error{File: src.Name, Line: fault.Line, Problem: fault.Problem, Hint: fault.Hint})
	}
	c.errors.List = append(c.errors.List, f.errors...)
	c.files = append(c.files, f.files...)
	if len(f.doc.Faults()) > 0 || len(f.errors) > 0 {
		if f.domain.Name != "" && c.begun[f.domain.Name] == nil {
			c.begun[f.domain.Name] = f.domain // so that its double is found as well
		}
		return
	}
	if f.first == nil {
		c.contents.Domains = append(c.contents.Domains, f.domain.Draft)
		c.begun[f.domain.Name] = f.domain
	}
	for _, octal := range f.doc.Octals() {
		f.warn("octal-number", octal.Line, "", octal.Problem, octal.Hint)
	}
	c.contents.Rules = append(c.contents.Rules, f.rules...)
	for _, note := range f.doc.Notes() {
		f.warn("let-pass", note.Line, "", note.Problem, note.Hint)
	}
	slices.SortStableFunc(f.warnings, func(a, b rule.Warning) int { return a.Line - b.Line })
	c.contents.Warnings = append(c.contents.Warnings, f.warnings...)
}

// join lets the file add to a domain that an earlier file has begun, if it may. What
// concerns the whole domain stands in that one.
func (f *fileCompiler) join(whole ...*strictyaml.Value) {
	first := f.compiler.begun[f.domain.Name]
	if !f.merge || first == nil {
		return
	}
	f.first = first
	f.domain.Join(first.Draft)
	f.domain.names = first.names
	if f.domain.Atomic != first.Atomic && f.atomic != nil {
		whole = append(whole, f.atomic)
	}
	f.domain.Atomic = first.Atomic
	for _, v := range whole {
		if v != nil {
			v.Fail(fmt.Sprintf("http, exempt, deny and atomic are for the whole domain %q, which begins in %s", f.domain.Name, rule.Place(first.File, first.Line)),
				"put them there")
		}
	}
}

// top reads the outermost words. The defaults may stand below what they are for.
func (f *fileCompiler) top() {
	var domain, descriptors, http, exempt, deny *strictyaml.Value
	keep := func(at **strictyaml.Value) func(strictyaml.Value) {
		return func(v strictyaml.Value) { *at = &v }
	}
	words := strictyaml.Words{
		"domain":      keep(&domain),
		"descriptors": keep(&descriptors),
		"http":        keep(&http),
		"exempt":      keep(&exempt),
		"deny":        keep(&deny),
		"atomic":      func(v strictyaml.Value) { f.atomic, f.domain.Atomic = &v, v.Bool() },
	}
	f.defaults.taken = map[string]bool{}
	f.defaults.words(words)
	root := f.doc.Root()
	known := root.Object("the file", words, hint.Top)
	f.domain.Line = root.Line()
	if domain != nil {
		f.domain.Name, f.domain.Line = domain.Text(), domain.Line()
	}
	if f.domain.Name == "" && (known || domain != nil && !domain.IsList() && !domain.IsObject()) {
		f.doc.Fail(f.domain.Line, "the file names no domain", "begin it with a line such as `domain: api`")
	}
	f.oneLine(f.domain.Line, "the name of the domain", f.domain.Name)
	f.defaults.check()
	f.join(http, exempt, deny)
	if exempt != nil {
		f.lists(*exempt, true)
	}
	if deny != nil {
		f.lists(*deny, false)
	}
	if descriptors != nil {
		f.level(*descriptors, nil)
	}
	f.idle()
	f.lend()
	if http != nil {
		f.http(*http)
	}
}

// warn notes something about a line that is accepted.
func (f *fileCompiler) warn(id string, line int, name, text, hint string) {
	f.warnings = append(f.warnings, rule.Warning{ID: id, File: f.domain.File, Line: line, Rule: name, Text: text, Hint: hint})
}
