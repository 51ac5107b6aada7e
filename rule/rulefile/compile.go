package rulefile

import (
	"fmt"
	"slices"

	"stint/internal/strictyaml"
	"stint/internal/strictyaml/parser"
	"stint/rule"
	"stint/rule/plan"
	"stint/rule/rulefile/hints"
)

// compiler makes one table of several rule files and collects their faults.
type compiler struct {
	contents rule.Contents
	begun    map[string]*domain // by domain name
	files    []Source           // files of lists and keys, as they were read
	plans    plan.Set
	errors   rule.Errors
}

// domain is a domain that one file began and other files may extend.
type domain struct {
	*rule.Draft
	names map[string]bool // names of its rules that users see
}

func newCompiler() *compiler { return &compiler{begun: map[string]*domain{}} }

// finish returns the table. It must not be called if there are faults.
func (c *compiler) finish(hash string) *rule.Table {
	c.contents.Hash, c.contents.Files = hash, c.names()
	for _, p := range c.plans.All() {
		c.contents.Plans = append(c.contents.Plans, rule.Plan{Name: p.Name, Limits: p.Limits(), Stored: p.Stored, File: p.File, Line: p.Line})
	}
	if c.plans.Default != plan.Deny {
		c.contents.DefaultPlan = c.plans.Default
	}
	return rule.NewTable(c.contents)
}

// names returns the names of the files of lists and keys, each once.
func (c *compiler) names() []string {
	var names []string
	for _, f := range c.files {
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// fileCompiler reads one file, which is one domain or a part of one.
type fileCompiler struct {
	doc        *strictyaml.Document
	domain     *domain
	defaults   policy
	rules      []*rule.Rule
	borrowers  []borrower
	penalized  []penalized
	refused    bool // a rule had a fault; other rules may refer to it
	unreadable bool // it is no YAML
	plansOnly  bool // the file has plans and no domain
	compiler   *compiler
	merge      bool
	atomic     *strictyaml.Value // the word in the file, nil if it is absent
	first      *domain           // the domain that this file extends; nil: it begins one
	warnings   []rule.Warning
	folder     string        // folder of list and key files
	files      []Source      // files of lists and keys, as they were read
	errors     []*rule.Error // faults in those files
}

// parse parses the YAML of a file, strictly or as Envoy's service does.
func parse(src Source) *strictyaml.Document {
	if src.Envoy {
		return parser.ParseLoose(src.Data, envoyWords...)
	}
	return parser.Parse(src.Data)
}

// open parses a file and reads its plans, which rules of any file may use.
func (c *compiler) open(src Source) *fileCompiler {
	f := &fileCompiler{
		doc:      parse(src),
		domain:   &domain{Draft: rule.NewDraft(src.Name), names: map[string]bool{}},
		folder:   src.Folder,
		compiler: c, merge: src.Merge,
	}
	f.domain.Atomic = !src.Envoy
	if f.unreadable = len(f.doc.Faults()) > 0; f.unreadable {
		return f
	}
	root := f.doc.Root()
	if v, ok := root.Get("plans"); ok {
		c.plans.Read(v, src.Name, src.Stored)
	}
	if v, ok := root.Get("default_plan"); ok && !src.Stored {
		c.plans.ReadDefault(v, src.Name)
	}
	return f
}

// file reads one file and adds its domain to the table.
func (c *compiler) file(f *fileCompiler) {
	if !f.unreadable {
		f.top()
		if first := c.begun[f.domain.Name]; first != nil && f.first == nil {
			f.doc.Fail(f.domain.Line, fmt.Sprintf("domain %q stands in two files; the other is %s", f.domain.Name, rule.Place(first.File, first.Line)),
				"put all descriptors of a domain into one file, name one of the domains otherwise, or set rules-merge")
		}
	}
	c.files = append(c.files, f.files...)
	if len(f.doc.Faults()) > 0 || len(f.errors) > 0 {
		if f.domain.Name != "" && c.begun[f.domain.Name] == nil {
			c.begun[f.domain.Name] = f.domain // so that a second file with this domain is reported too
		}
		return
	}
	if f.plansOnly {
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

// faults adds the faults of a document. A rule of another file may have found some in its plans.
func (c *compiler) faults(f *fileCompiler) {
	for _, fault := range f.doc.Faults() {
		c.errors.List = append(c.errors.List, &rule.Error{File: f.domain.File, Line: fault.Line, Problem: fault.Problem, Hint: fault.Hint})
	}
	c.errors.List = append(c.errors.List, f.errors...)
}

// join makes the file extend a domain that an earlier file began, if that is allowed. The words
// in whole concern the whole domain and are allowed only in the first file.
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

// top reads the top-level words. Defaults may come after the limits that they apply to.
func (f *fileCompiler) top() {
	var domain, descriptors, http, exempt, deny *strictyaml.Value
	plans := false
	keep := func(at **strictyaml.Value) func(strictyaml.Value) {
		return func(v strictyaml.Value) { *at = &v }
	}
	words := strictyaml.Words{
		"domain":       keep(&domain),
		"descriptors":  keep(&descriptors),
		"http":         keep(&http),
		"exempt":       keep(&exempt),
		"deny":         keep(&deny),
		"plans":        func(strictyaml.Value) { plans = true }, // read already
		"default_plan": func(strictyaml.Value) { plans = true },
		"atomic":       func(v strictyaml.Value) { f.atomic, f.domain.Atomic = &v, v.Bool() },
	}
	f.defaults.taken = map[string]bool{}
	f.defaults.words(words)
	root := f.doc.Root()
	known := root.Object("the file", words, hints.Top)
	f.domain.Line = root.Line()
	if domain != nil {
		f.domain.Name, f.domain.Line = domain.Text(), domain.Line()
	}
	if f.plansOnly = plans && domain == nil && descriptors == nil && http == nil; f.plansOnly {
		return
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
	f.checkPenalties()
	f.warnExcess()
	f.warnIdentity()
}

// warn adds a warning about a line.
func (f *fileCompiler) warn(id string, line int, name, text, hint string) {
	f.warnings = append(f.warnings, rule.Warning{ID: id, File: f.domain.File, Line: line, Rule: name, Text: text, Hint: hint})
}
