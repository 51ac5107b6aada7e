package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint/internal/text"
	"stint/rule"
)

// Effect is the effect of a change on the clients it concerns.
type Effect string

// The effects.
const (
	// Looser: more requests pass than before.
	Looser Effect = "looser"
	// Stricter: fewer requests pass than before.
	Stricter Effect = "stricter"
	// Anew: counts start at zero, so a client that had used up its limit has the full limit again,
	// once.
	Anew Effect = "anew"
	// Other: neither, or both; Change.Why is the reason.
	Other Effect = "other"
	// Same: the same limit written differently.
	Same Effect = "same"
)

// Effects are all effects.
var Effects = []Effect{Looser, Stricter, Anew, Other, Same}

// Change is one difference between two tables.
type Change struct {
	Effects []Effect `json:"effects"`
	Domain  string   `json:"domain"`
	Who     string   `json:"who"`            // the descriptors it concerns, such as "user=vip*, path"; "" for the whole domain
	Was     string   `json:"was,omitempty"`  // name of the old rule; "" for none
	Rule    string   `json:"rule,omitempty"` // name of the new rule; "" for none
	File    string   `json:"file"`           // file and line of the new rule, or of the old one if it was removed
	Line    int      `json:"line,omitempty"`
	Text    string   `json:"text"`
	Why     string   `json:"why,omitempty"` // why the effect is Other

	// WaitMS is the longest time in milliseconds, rounded up, that a used-up key waits for one
	// unit. It is nil if the numbers did not change, or if counts start at zero.
	WaitMS *int64 `json:"wait_ms,omitempty"`
}

// Compare returns what changes when table now replaces table old, and for which descriptors. It
// compares the limits that apply to descriptors of every form in either table; how the files are
// written does not matter.
func Compare(old, now *rule.Table) []Change {
	all := []Change{}
	renamed := renamedDomains(old, now)
	gone := map[*rule.Domain]string{} // text to add to the change of a domain that was renamed
	for _, n := range now.Domains() {
		o := old.Domain(n.Name())
		if o == nil {
			if o = renamed[n]; o == nil {
				all = append(all, whole(n, now, Stricter, "a new domain"))
				continue
			}
			gone[o] = fmt.Sprintf(" (requests that still name it are not limited, see %q)", n.Name())
			all = append(all, renaming(o, n, now))
		}
		c := &comparison{old: o, now: n, pairs: map[[2]*rule.Rule]bool{}}
		c.settings()
		c.lists()
		c.level(nil, nil, o.Nodes(), n.Nodes())
		c.http()
		all = append(all, c.changes...)
	}
	for _, o := range old.Domains() {
		if now.Domain(o.Name()) == nil {
			all = append(all, whole(o, old, Looser, "the domain is gone"+gone[o]))
		}
	}
	return all
}

// whole returns the change of a domain that was added or removed.
func whole(d *rule.Domain, t *rule.Table, effect Effect, text string) Change {
	n := 0
	for _, r := range t.Rules() {
		if r.Domain == d.Name() {
			n++
		}
	}
	why := ""
	if n == 0 {
		effect, why = Other, whyNoRules
	}
	noun := "rules"
	if n == 1 {
		noun = "rule"
	}
	return Change{Effects: []Effect{effect}, Domain: d.Name(), File: d.File(), Text: fmt.Sprintf("%s, with %d %s", text, n, noun), Why: why}
}

// comparison compares two domains of the same name.
type comparison struct {
	old, now *rule.Domain
	pairs    map[[2]*rule.Rule]bool // pairs already compared
	changes  []Change
	renamed  *renamedKey // the key being compared was renamed; nil if not
}

// note adds a change of the whole domain.
func (c *comparison) note(effect Effect, at place, format string, args ...any) {
	c.changes = append(c.changes, Change{Effects: []Effect{effect}, Domain: c.now.Name(), File: at.file, Line: at.line, Text: fmt.Sprintf(format, args...)})
}

// settings compares the settings of the whole domain.
func (c *comparison) settings() {
	if c.old.Atomic() != c.now.Atomic() {
		why := map[bool]string{true: whyUncharged, false: whyCharged}[c.now.Atomic()]
		c.other(place{c.now.File(), 0}, why, "atomic: %t -> %t", c.old.Atomic(), c.now.Atomic())
	}
	if was, is := c.old.Paths().String(), c.now.Paths().String(); was != is {
		c.other(place{c.now.File(), 0}, whyReach, "paths are normalized differently: %q -> %q", was, is)
	}
}

// lists compares which values are exempt and which are denied at once.
func (c *comparison) lists() {
	is := map[string]*rule.Listed{}
	was := map[string]*rule.Listed{}
	id := func(l *rule.Listed) string { return fmt.Sprint(l.Exempt, l.What(), l.Name) }
	for _, l := range c.old.Lists() {
		was[id(l)] = l
	}
	for _, l := range c.now.Lists() {
		is[id(l)] = l
		var before []string
		if o := was[id(l)]; o != nil {
			before = o.Elements()
			if o.Status != l.Status {
				c.other(place{l.File, l.Line}, whyAnswers, "list %s: status %d -> %d", l.Name, o.Status, l.Status)
			}
		}
		c.elements(l, before, l.Elements())
	}
	for _, l := range c.old.Lists() {
		if is[id(l)] == nil {
			c.elements(l, l.Elements(), nil)
		}
	}
}

// elements compares the elements of a list before and after.
func (c *comparison) elements(l *rule.Listed, was, is []string) {
	missing := func(from, in []string) (all []string) {
		for _, e := range from {
			if _, ok := slices.BinarySearch(in, e); !ok {
				all = append(all, e)
			}
		}
		return all
	}
	in, out, word := Stricter, Looser, "denied"
	if l.Exempt {
		in, out, word = Looser, Stricter, "exempt"
	}
	if more := missing(is, was); len(more) > 0 {
		c.note(in, place{l.File, l.Line}, "list %s: now %s by %s: %s", l.Name, word, l.What(), text.Join(more))
	}
	if fewer := missing(was, is); len(fewer) > 0 {
		c.note(out, place{l.File, l.Line}, "list %s: no longer %s by %s: %s", l.Name, word, l.What(), text.Join(fewer))
	}
}

// candidate is one value of an entry. It represents all values to which both tables apply the same
// nodes.
type candidate struct {
	value string
	label string // shown in Change.Who
}

// level compares the limits of descriptors whose next entry matches one of the nodes.
func (c *comparison) level(before []rule.Entry, labels []string, old, now []*rule.Node) {
	keys, nodes := byKey(now, old)
	outer, renamed := c.renamed, renamedKeys(keys, nodes)
	defer func() { c.renamed = outer }()
	for _, key := range keys {
		if c.renamed = renamed[key]; c.renamed == nil {
			c.renamed = outer
		}
		seen := map[[2]*rule.Node]bool{}
		for _, v := range candidates(key, nodes[key]) {
			entries := append(slices.Clone(before), rule.Entry{Key: key, Value: v.value})
			o, n := c.old.Find(entries), c.now.Find(entries)
			if seen[[2]*rule.Node{o, n}] || o == nil && n == nil {
				continue
			}
			seen[[2]*rule.Node{o, n}] = true
			who := append(slices.Clone(labels), v.label)
			c.node(entries, strings.Join(who, ", "), o, n)
			c.level(entries, who, below(o), below(n))
		}
	}
}

func below(n *rule.Node) []*rule.Node {
	if n == nil {
		return nil
	}
	return n.Below()
}

// byKey groups the nodes of two levels by key, and returns the keys in order of appearance.
func byKey(now, old []*rule.Node) (keys []string, nodes map[string][2][]*rule.Node) {
	nodes = map[string][2][]*rule.Node{}
	for side, level := range [2][]*rule.Node{now, old} {
		for _, n := range level {
			key := own(n).Key
			both, known := nodes[key]
			if !known {
				keys = append(keys, key)
			}
			both[side] = append(both[side], n)
			nodes[key] = both
		}
	}
	return keys, nodes
}

// maxMixed is the number of patterns of a key up to which level also tries values that match two of
// them.
const maxMixed = 50

// candidates returns values of a key that lead to every node of two levels, including values that
// match a pattern of both.
func candidates(key string, nodes [2][]*rule.Node) []candidate {
	var all []candidate
	var wild [2][]rule.Level
	any := false
	for side, level := range nodes {
		for _, n := range level {
			switch at := own(n); {
			case at.Value == "":
				any = true
			default:
				all = append(all, candidate{witness(at), at.String()})
				if at.Wildcard {
					wild[side] = append(wild[side], at)
				}
			}
		}
	}
	if any {
		all = append(all, candidate{fresh, key})
	}
	if len(wild[0])+len(wild[1]) <= maxMixed {
		for _, a := range wild[0] {
			for _, b := range wild[1] {
				if value, ok := mixed(a.Value, b.Value); ok {
					all = append(all, candidate{value, fmt.Sprintf("%s and %s", a, b.Value)})
				}
			}
		}
	}
	return all
}

// mixed returns a value that both patterns match.
func mixed(a, b string) (string, bool) {
	firstA, lastA := a[:strings.IndexByte(a, '*')], a[strings.LastIndexByte(a, '*')+1:]
	firstB, lastB := b[:strings.IndexByte(b, '*')], b[strings.LastIndexByte(b, '*')+1:]
	first, last := firstA, lastA
	if len(firstB) > len(first) {
		first = firstB
	}
	if len(lastB) > len(last) {
		last = lastB
	}
	middle := func(s, first, last string) string {
		return strings.ReplaceAll(s[len(first):len(s)-len(last)], "*", fresh)
	}
	value := first + middle(a, firstA, lastA) + middle(b, firstB, lastB) + last
	return value, matches(a, value) && matches(b, value)
}

// node compares the limits of two nodes that match the same descriptors; either may be nil.
func (c *comparison) node(entries []rule.Entry, who string, old, now *rule.Node) {
	var was, is []*rule.Rule
	if old != nil {
		was = slices.Clone(old.Rules)
	}
	if now != nil {
		is = slices.Clone(now.Rules)
	}
	for _, same := range []func(a, b *rule.Rule) bool{
		func(a, b *rule.Rule) bool {
			return string(a.AppendKey(nil, entries)) == string(b.AppendKey(nil, entries))
		},
		samePlace,
		func(a, b *rule.Rule) bool { return a.Given != "" && a.Given == b.Given },
		func(a, b *rule.Rule) bool { return a.Limit.Algorithm() == b.Limit.Algorithm() },
		func(a, b *rule.Rule) bool { return true },
	} {
		for i := 0; i < len(was); i++ {
			if j := slices.IndexFunc(is, func(b *rule.Rule) bool { return same(was[i], b) }); j >= 0 {
				c.pair(entries, who, was[i], is[j])
				was, is = slices.Delete(was, i, i+1), slices.Delete(is, j, j+1)
				i--
			}
		}
	}
	for _, r := range was {
		c.pair(entries, who, r, nil)
	}
	for _, r := range is {
		c.pair(entries, who, nil, r)
	}
}

// pair compares an old limit with the new one that replaces it; either may be nil.
func (c *comparison) pair(entries []rule.Entry, who string, was, is *rule.Rule) {
	key := [2]*rule.Rule{was, is}
	if c.pairs[key] && was != nil && is != nil {
		return
	}
	c.pairs[key] = true
	change := Change{Domain: c.now.Name(), Who: who}
	switch {
	case was == nil:
		change.Rule, change.File, change.Line = is.Name, is.File, is.Line
		change.Effects, change.Why = []Effect{denying(is, Stricter)}, whyHarmless(is)
		change.Text = fmt.Sprintf("now limited by %s: %s", is.Name, is.Summary())
		c.renamed.comes(&change, is)
	case is == nil:
		change.Was, change.File, change.Line = was.Name, was.File, was.Line
		change.Effects, change.Why = []Effect{denying(was, Looser)}, whyHarmless(was)
		change.Text = fmt.Sprintf("no longer limited by %s: %s", was.Name, was.Summary())
		c.renamed.goes(&change)
	default:
		change.Was, change.Rule, change.File, change.Line = was.Name, is.Name, is.File, is.Line
		d := difference{was: was, is: is}
		d.compare(entries)
		if len(d.texts) == 0 {
			if was.Name == is.Name || d.renamed() && sameName(was, is) {
				return
			}
			d.other(whyNames, "answers and metrics show a different name")
		}
		change.Effects, change.WaitMS = d.all(), d.waitMS
		d.explain(&change)
		change.Text = strings.Join(d.texts, "; ")
		if was.Name != is.Name && !(d.renamed() && sameName(was, is)) {
			change.Text = fmt.Sprintf("by %s, and not by %s: %s", is.Name, was.Name, change.Text)
		}
	}
	c.changes = append(c.changes, change)
}

// denying returns the effect of a rule that was added or removed: Other if the rule denies nobody.
func denying(r *rule.Rule, effect Effect) Effect {
	if whyHarmless(r) != "" {
		return Other
	}
	return effect
}

// http compares how the http section turns requests into descriptors.
func (c *comparison) http() {
	lines := func(d *rule.Domain) map[string]int {
		all := map[string]int{}
		for _, h := range d.HTTP() {
			all[h.Text] = h.Line
		}
		return all
	}
	was, is := lines(c.old), lines(c.now)
	for _, h := range c.now.HTTP() {
		if _, before := was[h.Text]; !before {
			c.other(place{c.now.File(), h.Line}, whyReach, "requests are now described by %s", h.Text)
		}
	}
	for _, h := range c.old.HTTP() {
		if _, after := is[h.Text]; !after {
			c.other(place{c.old.File(), h.Line}, whyReach, "requests are no longer described by %s", h.Text)
		}
	}
	if c.old.HasHTTP() || c.now.HasHTTP() {
		c.reach()
	}
}

// reach compares which limits the requests of the http section reach. It skips limits that only one
// of the tables has.
func (c *comparison) reach() {
	was, is := readSection(c.old), readSection(c.now)
	reached := map[string]bool{}
	known := map[string]bool{}
	for _, n := range limited(c.old.Nodes()) {
		known[pathOf(n)] = true
		reached[pathOf(n)] = was.ends[n] != nil
	}
	for _, n := range limited(c.now.Nodes()) {
		path := pathOf(n)
		switch now := is.ends[n] != nil; {
		case !known[path] || now == reached[path]:
		case now:
			c.note(Stricter, nodeAt(n), "requests of the http section now come to %s: %s", path, names(n.Rules))
		default:
			c.note(Looser, nodeAt(n), "requests of the http section no longer come to %s: %s", path, names(n.Rules))
		}
	}
}
