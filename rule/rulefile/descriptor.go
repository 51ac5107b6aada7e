package rulefile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"stint/internal/strictyaml"
	"stint/rule"
	"stint/rule/rulefile/hints"
)

// descriptor is one element of `descriptors`, as read.
type descriptor struct {
	at             strictyaml.Value
	level          rule.Level
	limits         *strictyaml.Value
	children       *strictyaml.Value
	shadow, quota  bool
	detailedMetric bool
	metadata       map[string]any
}

// level reads a list of descriptors below a node; nil is the top.
func (f *fileCompiler) level(v strictyaml.Value, below *rule.Node) {
	for _, element := range v.List() {
		f.descriptor(element, below)
	}
}

// descriptor reads one descriptor and adds its node below another.
func (f *fileCompiler) descriptor(v strictyaml.Value, below *rule.Node) {
	d := descriptor{at: v}
	known := v.Object("a descriptor", d.words(), hints.Descriptor)
	if d.level.Key == "" {
		if known {
			v.Fail("a descriptor without a key", "add `key:`, the name of the entry that it matches")
		}
		below = &rule.Node{Path: pathOf(below)} // a detached node: its children are read only to report their faults
	}
	d.level.Wildcard = strings.Contains(d.level.Value, "*")
	switch {
	case !d.level.Shared || d.level.Wildcard:
	case f.doc.Loose() && strings.Contains(d.level.Key, "*"):
		f.warn("let-pass", v.Line(), "", fmt.Sprintf("share_threshold on %s, whose key has a *: a key is compared as it stands", d.level), "put the * into a value")
	default:
		v.Fail(fmt.Sprintf("share_threshold on %s, whose value has no *", d.level), "it makes all values that match a pattern share one counter; give a value such as \"a*\"")
	}
	n := &rule.Node{Path: append(slices.Clone(pathOf(below)), d.level), File: f.domain.File, Line: v.Line()}
	if first := f.domain.Put(n, below); first != nil {
		v.Fail(fmt.Sprintf("descriptor %s stands twice, first in %s", d.level, f.where(first)), "put what both say into one; rate_limit may be a list of several limits")
	}
	f.oneLine(v.Line(), "the key of a descriptor", d.level.Key)
	f.oneLine(v.Line(), "the value of a descriptor", d.level.Value)
	if d.limits != nil {
		f.limits(&d, n)
	} else if d.shadow || d.quota {
		f.warn("mode-without-limit", v.Line(), "", fmt.Sprintf("shadow_mode or quota_mode on %s, which has no rate_limit", d.level), "it concerns the limits of this descriptor alone, not those below it")
	}
	if d.children != nil {
		f.level(*d.children, n)
	}
}

// pathOf returns the path of a node, nil for the top.
func pathOf(n *rule.Node) []rule.Level {
	if n == nil {
		return nil
	}
	return n.Path
}

// where returns the line of a node, with the file if it is in another one.
func (f *fileCompiler) where(n *rule.Node) string {
	if n.File == f.domain.File {
		return fmt.Sprintf("line %d", n.Line)
	}
	return rule.Place(n.File, n.Line)
}

func (d *descriptor) words() strictyaml.Words {
	return strictyaml.Words{
		"key":             func(v strictyaml.Value) { d.level.Key = v.Text() },
		"value":           func(v strictyaml.Value) { d.level.Value = v.Text() },
		"rate_limit":      func(v strictyaml.Value) { d.limits = &v },
		"descriptors":     func(v strictyaml.Value) { d.children = &v },
		"shadow_mode":     func(v strictyaml.Value) { d.shadow = v.Bool() },
		"quota_mode":      func(v strictyaml.Value) { d.quota = v.Bool() },
		"share_threshold": func(v strictyaml.Value) { d.level.Shared = v.Bool() },
		"value_to_metric": func(v strictyaml.Value) { d.level.ValueToMetric = v.Bool() },
		"show":            func(v strictyaml.Value) { d.level.Show = v.Bool() },
		"detailed_metric": func(v strictyaml.Value) { d.detailedMetric = v.Bool() },
		"metadata": func(v strictyaml.Value) {
			if !v.IsObject() && !v.IsNull() {
				v.Fail("metadata is no object of words and values", "write `word: value`, one a line")
			} else if m, ok := v.Any().(map[string]any); ok {
				d.metadata = m
			}
		},
	}
}

// oneLine warns about a line break in a text, which is hardly ever meant.
func (f *fileCompiler) oneLine(line int, what, text string) {
	if strings.ContainsAny(text, "\r\n") {
		f.warn("line-break", line, "", fmt.Sprintf("%s has a line break: %q", what, text), "write it in one line, without the | or > that YAML takes for a text of several lines")
	}
}

// limits reads the rate_limit of a descriptor: one limit or a list of them.
func (f *fileCompiler) limits(d *descriptor, n *rule.Node) {
	list := d.limits.OneOrList()
	if len(list) == 0 {
		if d.limits.IsList() {
			d.limits.Fail("rate_limit is an empty list", "give at least one limit, or leave rate_limit out")
			return
		}
		if f.doc.Loose() {
			f.warn("let-pass", d.limits.Line(), "", fmt.Sprintf("rate_limit on %s is empty and limits nothing", d.level), "write its numbers, or leave it out")
			return
		}
		d.limits.Fail(fmt.Sprintf("rate_limit on %s is empty, so it would limit nothing", d.level), "write its numbers, or leave it out")
		return
	}
	for i, v := range list {
		if _, ok := v.Get("plan"); ok {
			f.planned(d, n, v, i, len(list))
			continue
		}
		l := f.newLimit(v)
		if !l.read() {
			f.refused = true
			continue
		}
		r := f.ruleOf(l, d, n, v)
		r.Position = i
		for j, other := range n.Rules {
			if r.Given != "" && r.Given == other.Given {
				v.Fail(fmt.Sprintf("two limits of one descriptor have the name %q", r.Given), "give each a name of its own, or none")
			} else if r.Given == "" && other.Given == "" && r.Limit.ForStores().Same(other.Limit) && r.Answers.Same(other.Answers) && other.Plan == nil {
				v.Fail(fmt.Sprintf("limit %d of %s says the same as limit %d", i+1, d.level, j+1), "keep one of the two")
			}
		}
		r.Name = f.name(r, i, len(list), "")
		f.complete(l, r, r)
		f.add(l, r, n)
	}
}

// newLimit returns a limit that is to be read from v, with the defaults of the file.
func (f *fileCompiler) newLimit(v strictyaml.Value) *limit {
	return &limit{
		at: v, said: map[string]strictyaml.Value{}, policy: f.defaults.inherit(),
		loose: f.doc.Loose(), tallies: f.doc.Loose() && !f.domain.Atomic,
	}
}

// ruleOf returns the rule of a limit that was read, without its name and what depends on it. at is the
// rate_limit of the descriptor.
func (f *fileCompiler) ruleOf(l *limit, d *descriptor, n *rule.Node, at strictyaml.Value) *rule.Rule {
	r := &rule.Rule{
		Given: l.name, Domain: f.domain.Name, Path: n.Path,
		Shadow: d.shadow, Quota: d.quota, Replaces: l.replaces, Denial: l.denial, Excess: f.excessOf(l, d), Answers: l.answers,
		OnStoreFailure: l.failure, LocalShare: l.share, Nodes: l.nodes, Headers: l.headers,
		Coordination: l.coordination, KeptAfterLoss: l.keptAfterLoss(), AskPeers: l.asks && l.coordination == rule.Gossip,
		DetailedMetric: d.detailedMetric, Metadata: d.metadata, File: f.domain.File, Line: at.Line(),
	}
	l.numbers(r)
	r.Penalty = f.penaltyOf(l, d)
	l.placeBy(r)
	return r
}

// numbers sets what a rule has of the numbers of the limit.
func (l *limit) numbers(r *rule.Rule) {
	r.Limit, r.Stored, r.Tally, r.Soft, r.Unit, r.Local, r.Penalty = l.limit, l.stored, l.tally(), l.soft, l.unit, l.localLimit(), l.penalizes
}

// complete sets what depends on the name of a rule. first is the rule whose terms it shares if they are
// the same: the one of another plan at its place, or the rule itself.
func (f *fileCompiler) complete(l *limit, r, first *rule.Rule) {
	l.agree(r)
	if r != first && rule.SameTerms(r.Terms, first.Terms) && l.elastic == nil {
		r.Terms = first.Terms
	}
	f.setCandidate(l, r)
	if l.penalty != nil {
		f.penalized = append(f.penalized, penalized{r, l.penalty})
	}
	if l.elastic != nil {
		f.borrowers = append(f.borrowers, borrower{r, l.elastic})
	}
}

// add adds a rule to its node and to the file.
func (f *fileCompiler) add(l *limit, r *rule.Rule, n *rule.Node) {
	f.defaults.serve(l)
	f.oneLine(r.Line, "the name of a limit", l.name)
	n.Rules = append(n.Rules, r)
	f.rules = append(f.rules, r)
	if l.ignored != "" {
		f.warn("unlimited-number", r.Line, r.Name, l.ignored, "leave it out: an unlimited rule has no number")
	}
	for _, note := range l.letPass {
		f.warn("let-pass", r.Line, r.Name, note[0], note[1])
	}
}

// pathName returns the domain and the path of a node.
func (f *fileCompiler) pathName(path []rule.Level) string {
	parts := []string{f.domain.Name}
	for _, l := range path {
		parts = append(parts, l.String())
	}
	return strings.Join(parts, "/")
}

// name returns the name that users see for limit number index of count limits of a node: the name
// in the file, else the path. suffix names a place of plans. It is unique within the domain.
func (f *fileCompiler) name(r *rule.Rule, index, count int, suffix string) string {
	path := f.pathName(r.Path)
	if count > 1 {
		path += fmt.Sprintf("#%d", index+1)
	}
	path += suffix
	name := path
	if r.Given != "" {
		name = r.Given + suffix
		if f.domain.names[name] {
			f.warn("double-name", r.Line, path, fmt.Sprintf("the name %q is given to another rule already; this one is shown with its path", name),
				"give each rule a name of its own, unless one `replaces` is to drop them all")
			name += " (" + path + ")"
		}
	}
	unique := name
	for i := 2; f.domain.names[unique]; i++ {
		unique = fmt.Sprintf("%s (%d)", name, i)
	}
	f.domain.names[unique] = true
	return unique
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
