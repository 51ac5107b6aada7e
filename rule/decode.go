package rule

import (
	"fmt"
	"slices"

	"stint/internal/strictyaml"
	"stint/rule/hint"
)

// compiler turns rule files into a table, and collects all that is wrong with them.
type compiler struct {
	table  *Table
	files  []Source // of lists, as they were read
	errors Errors
}

func newCompiler() *compiler {
	return &compiler{table: &Table{byName: map[string]*Domain{}}}
}

// finish returns the table, for files without faults.
func (c *compiler) finish(hash string) *Table {
	c.table.hash, c.table.files = hash, c.names()
	c.table.markSecrets()
	for i, r := range c.table.rules {
		r.Index = i
	}
	return c.table
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
	domain    *Domain
	defaults  policy
	rules     []*Rule
	borrowers []borrower
	refused   bool            // a rule, which may be one that others name
	names     map[string]bool // of rules, as users see them
	nodes     int             // so far
	compiler  *compiler
	merge     bool
	atomic    *strictyaml.Value // as the file says it
	first     *Domain           // what the file adds to; nil: it begins its domain
	warnings  []Warning
	folder    string   // of the files that the rules name
	files     []Source // of lists, as they were read
	errors    []*Error // in those
}

// parse reads a file as its source says.
func parse(src Source) *strictyaml.Document {
	if src.Envoy {
		return strictyaml.ParseLoose(src.Data, envoyWords...)
	}
	return strictyaml.Parse(src.Data)
}

// file compiles one file into the table.
func (c *compiler) file(src Source) {
	f := &fileCompiler{
		doc:      parse(src),
		domain:   &Domain{file: src.Name, atomic: !src.Envoy},
		names:    map[string]bool{},
		folder:   src.Folder,
		compiler: c, merge: src.Merge,
	}
	if len(f.doc.Faults()) == 0 {
		f.top()
		if first := c.table.byName[f.domain.name]; first != nil && f.first == nil {
			f.doc.Fail(f.domain.line, fmt.Sprintf("domain %q stands in two files; the other is %s", f.domain.name, place(first.file, first.line)),
				"put all descriptors of a domain into one file, name one of the domains otherwise, or set rules-merge")
		}
	}
	for _, fault := range f.doc.Faults() {
		c.errors.List = append(c.errors.List, &Error{File: src.Name, Line: fault.Line, Problem: fault.Problem, Hint: fault.Hint})
	}
	c.errors.List = append(c.errors.List, f.errors...)
	c.files = append(c.files, f.files...)
	if len(f.doc.Faults()) > 0 || len(f.errors) > 0 {
		if f.domain.name != "" && c.table.byName[f.domain.name] == nil {
			c.table.byName[f.domain.name] = f.domain // so that its double is found as well
		}
		return
	}
	if f.first == nil {
		c.table.domains = append(c.table.domains, f.domain)
		c.table.byName[f.domain.name] = f.domain
		f.first = f.domain
	}
	f.first.named, f.first.count = f.names, f.nodes
	for _, octal := range f.doc.Octals() {
		f.warn("octal-number", octal.Line, "", octal.Problem, octal.Hint)
	}
	c.table.rules = append(c.table.rules, f.rules...)
	for _, note := range f.doc.Notes() {
		f.warn("let-pass", note.Line, "", note.Problem, note.Hint)
	}
	slices.SortStableFunc(f.warnings, func(a, b Warning) int { return a.Line - b.Line })
	c.table.warnings = append(c.table.warnings, f.warnings...)
}

// join lets the file add to a domain that an earlier file has begun, if it may. What
// concerns the whole domain stands in that one.
func (f *fileCompiler) join(whole ...*strictyaml.Value) {
	f.domain.root, f.domain.keys = level{}, keyPaths{}
	first := f.compiler.table.byName[f.domain.name]
	if !f.merge || first == nil {
		return
	}
	f.first = first
	if first.root == nil {
		first.root, first.keys = level{}, keyPaths{} // of a file with faults
	}
	f.domain.root, f.domain.keys, f.nodes = first.root, first.keys, first.count
	if first.named != nil {
		f.names = first.named
	}
	if f.domain.atomic != first.atomic && f.atomic != nil {
		whole = append(whole, f.atomic)
	}
	f.domain.atomic = first.atomic
	for _, v := range whole {
		if v != nil {
			v.Fail(fmt.Sprintf("http, exempt, deny and atomic are for the whole domain %q, which begins in %s", f.domain.name, place(first.file, first.line)),
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
		"atomic":      func(v strictyaml.Value) { f.atomic, f.domain.atomic = &v, v.Bool() },
	}
	f.defaults.taken = map[string]bool{}
	f.defaults.words(words)
	root := f.doc.Root()
	known := root.Object("the file", words, hint.Top)
	f.domain.line = root.Line()
	if domain != nil {
		f.domain.name, f.domain.line = domain.Text(), domain.Line()
	}
	if f.domain.name == "" && (known || domain != nil && !domain.IsList() && !domain.IsObject()) {
		f.doc.Fail(f.domain.line, "the file names no domain", "begin it with a line such as `domain: api`")
	}
	f.oneLine(f.domain.line, "the name of the domain", f.domain.name)
	f.defaults.check()
	f.join(http, exempt, deny)
	if exempt != nil {
		f.lists(*exempt, true)
	}
	if deny != nil {
		f.lists(*deny, false)
	}
	if descriptors != nil {
		f.level(*descriptors, nil, f.domain.root)
	}
	f.idle()
	f.lend()
	if http != nil {
		f.http(*http)
	}
}

// warn notes something about a line that is accepted.
func (f *fileCompiler) warn(id string, line int, rule, text, hint string) {
	f.warnings = append(f.warnings, Warning{ID: id, File: f.domain.file, Line: line, Rule: rule, Text: text, Hint: hint})
}
