package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint/rule"
	"stint/rule/action"
)

// way is one form of the descriptors that an element of the http section makes.
type way struct {
	of    *rule.HTTPLimit
	parts []action.Part
}

// maxWays bounds the forms of one element, which double with each entry that may be
// left out.
const maxWays = 256

// waysOf returns the forms of the descriptors of an element.
func waysOf(h *rule.HTTPLimit) []way {
	forms := [][]action.Part{nil}
	for _, part := range h.Actions.Parts() {
		var next [][]action.Part
		for _, form := range forms {
			for _, one := range choices(&part) {
				next = append(next, append(slices.Clone(form), one))
			}
			if part.Optional {
				next = append(next, form)
			}
		}
		if forms = next; len(forms) > maxWays {
			forms = forms[:maxWays]
		}
	}
	var ways []way
	for _, form := range forms {
		first := len(form)
		if h.Groups {
			first = 1
		}
		for n := max(first, 1); n <= len(form); n++ {
			ways = append(ways, way{h, form[:n:n]})
		}
	}
	return ways
}

// always reports whether every request has a descriptor of this form.
func (w *way) always() bool {
	return !slices.ContainsFunc(w.parts, func(p action.Part) bool { return !p.Always })
}

// section is what is known of the http section of a domain.
type section struct {
	ways    []way
	ends    map[*rule.Node][]*way // where descriptors end
	through map[*rule.Node]bool   // where they go on
	cannot  map[*rule.Node]string // why no action says the value of a node

	replacing []*rule.Node // where descriptors end at a limit that replaces others
}

// readSection follows all descriptors that the http section makes.
func readSection(d *rule.Domain) *section {
	s := &section{ends: map[*rule.Node][]*way{}, through: map[*rule.Node]bool{}, cannot: map[*rule.Node]string{}}
	http := d.HTTP()
	for i := range http {
		s.ways = append(s.ways, waysOf(&http[i])...)
	}
	for i := range s.ways {
		s.follow(d, &s.ways[i], 0, d.Nodes(), nil)
	}
	for n := range s.ends {
		if slices.ContainsFunc(n.Rules, func(r *rule.Rule) bool { return len(r.Replaces) > 0 }) {
			s.replacing = append(s.replacing, n)
		}
	}
	return s
}

// follow notes to which nodes descriptors of a form come, from a depth on.
func (s *section) follow(d *rule.Domain, w *way, depth int, level []*rule.Node, entries []rule.Entry) {
	part := &w.parts[depth]
	for _, n := range level {
		at := own(n)
		if at.Key != part.Key {
			continue
		}
		value, why, ok := says(d, part, n, entries)
		if !ok {
			if _, known := s.cannot[n]; !known && why != "" && !s.through[n] && s.ends[n] == nil {
				s.cannot[n] = why
			}
			continue
		}
		delete(s.cannot, n)
		if depth+1 == len(w.parts) {
			s.ends[n] = append(s.ends[n], w)
			continue
		}
		s.through[n] = true
		s.follow(d, w, depth+1, n.Below(), append(slices.Clone(entries), rule.Entry{Key: at.Key, Value: value}))
	}
}

// says returns a value with which the part of a descriptor comes to a node, or why
// none does.
func says(d *rule.Domain, part *action.Part, n *rule.Node, before []rule.Entry) (value, why string, ok bool) {
	at := own(n)
	comes := func(value string) bool {
		return d.Find(append(slices.Clone(before), rule.Entry{Key: at.Key, Value: value})) == n
	}
	switch {
	case part.Values != nil && (at.Wildcard || at.Value == ""):
		if i := slices.IndexFunc(part.Values, comes); i >= 0 {
			return part.Values[i], "", true
		}
		if at.Wildcard {
			return "", fmt.Sprintf("%s says %s", part.Name, few(part.Values)), false
		}
		return "", "", false // what is left over, of which there is nothing now
	case at.Wildcard && part.Name == "path" && at.Value[0] != '*' && at.Value[0] != '/':
		return "", "a path begins with a slash", false
	case !at.Wildcard && at.Value != "":
		if why, ok := part.May(at.Value); !ok {
			return "", why, false
		}
	}
	value = witness(at)
	return value, "", comes(value)
}

// http looks at how requests become descriptors.
func (a *auditor) http() {
	s := readSection(a.domain)
	http := a.domain.HTTP()
	for i := range http {
		a.element(&http[i])
	}
	var outside []*rule.Rule
	for _, n := range limited(a.domain.Nodes()) {
		switch {
		case s.ends[n] != nil || s.blocked(a.domain, n):
		case s.through[n]:
			a.find("passed-by", nodeAt(n), nameOf(n), fmt.Sprintf("the http section describes requests beyond %s, and none that ends there: only the descriptor of the last entry counts", pathOf(n)),
				"add an element to http.rate_limits whose actions end there; `groups` makes one for each level")
		default:
			outside = append(outside, n.Rules...)
		}
	}
	for n, why := range s.cannot {
		if s.ends[n] == nil && !s.through[n] {
			a.find("impossible-value", nodeAt(n), nameOf(n), fmt.Sprintf("no request of the http section is %s: %s", own(n), why), "write the value as the action says it, or a pattern that matches it")
		}
	}
	a.outside(outside)
	a.prices(s)
	a.groups(s)
	a.uncounted(s)
	a.invented(s)
	a.plain(s)
}

// blocked reports whether a node, or one on the way to it, has a value that no action
// says, or is never matched.
func (s *section) blocked(d *rule.Domain, n *rule.Node) bool {
	for depth := range n.Path {
		at := d.Find(witnesses(n.Path[:depth+1]))
		if at == nil || len(at.Path) != depth+1 || at.Path[depth] != n.Path[depth] {
			return true
		}
		if _, cannot := s.cannot[at]; cannot {
			return true
		}
	}
	return false
}

func pathOf(n *rule.Node) string {
	texts := make([]string, len(n.Path))
	for i, l := range n.Path {
		texts[i] = l.String()
	}
	return strings.Join(texts, "/")
}

// element looks for actions that make a descriptor which no rule knows.
func (a *auditor) element(h *rule.HTTPLimit) {
	levels := [][]*rule.Node{a.domain.Nodes()}
	var path []string
	for _, either := range h.Actions.Keys() { // what follows one that may be left out may stand at several levels
		path = append(path, strings.Join(either, " or "))
		var below [][]*rule.Node
		for _, level := range levels {
			for _, n := range level {
				if slices.Contains(either, own(n).Key) {
					below = append(below, n.Below())
				}
			}
		}
		if below == nil {
			a.find("action-without-rule", a.inFile(h.Line), "", fmt.Sprintf("these actions describe a request as %s, and no descriptor stands there", strings.Join(path, "/")),
				"the keys of the actions, in their order, are the keys of nested descriptors")
			return
		}
		levels = below
	}
}

// outside names the rules that only who brings descriptors is asked for.
func (a *auditor) outside(rules []*rule.Rule) {
	rules = slices.DeleteFunc(rules, func(r *rule.Rule) bool { return a.pools[r] })
	if len(rules) == 0 {
		return
	}
	a.find("outside-http", ruleAt(rules[0]), "", "the http section never asks these limits, only who brings descriptors does: "+names(rules),
		"add elements to http.rate_limits if requests of the middleware should count there")
}

// prices looks for costs that a limit can never hold.
func (a *auditor) prices(s *section) {
	for n, ways := range s.ends {
		for _, r := range n.Rules {
			for _, w := range ways {
				for _, p := range w.of.Cost.Prices() {
					if most := most(r); most > 0 && int64(p.Units) > most {
						a.find("cost-above-limit", ruleAt(r), r.Name, fmt.Sprintf("%s costs %d (%s), and the limit never holds more than %d: it is always denied", p.Of, p.Units, a.inFile(w.of.Line).from(ruleAt(r)), most),
							"raise the limit, or its burst, or lower the cost")
					}
				}
			}
		}
	}
}

// groups looks for limits of a group that never deny because that of a group around
// it does before.
func (a *auditor) groups(s *section) {
	for n, ways := range s.ends {
		for depth := 1; depth < len(n.Path); depth++ {
			around := a.domain.Find(witnesses(n.Path[:depth]))
			if around == nil || !slices.Equal(around.Path, n.Path[:depth]) || !asked(ways, s.ends[around], depth) {
				continue
			}
			for _, loose := range n.Rules {
				for _, tight := range around.Rules {
					if a.within(tight, loose) {
						a.neverDenies(loose, tight)
					}
				}
			}
		}
	}
}

// asked reports whether for each of the inner descriptors there is an outer one at the
// same cost, with the same beginning.
func asked(inner, outer []*way, depth int) bool {
	for _, w := range inner {
		if !slices.ContainsFunc(outer, func(o *way) bool {
			return o.of.Cost.String() == w.of.Cost.String() && slices.EqualFunc(o.parts, w.parts[:depth], func(a, b action.Part) bool {
				return a.Name == b.Name && a.Key == b.Key && a.Reads == b.Reads
			})
		}) {
			return false
		}
	}
	return true
}

// uncounted looks for a section that reads only what clients may leave out.
func (a *auditor) uncounted(s *section) {
	var reads []string
	for n, ways := range s.ends {
		if len(n.Rules) == 0 {
			continue
		}
		for _, w := range ways {
			if w.always() {
				return
			}
			for _, p := range w.parts {
				if !p.Always {
					reads = append(reads, p.Reads)
				}
			}
		}
	}
	if len(reads) == 0 {
		return // nothing is limited at all, which is said elsewhere
	}
	slices.Sort(reads)
	a.find("uncounted-request", a.inFile(a.domain.HTTP()[0].Line), "", fmt.Sprintf("a request that leaves out %s is not counted at all", some(slices.Compact(reads), "and")),
		"add an element that every request has, such as `actions: [{remote_address: {}}]` with a limit, unless what stands in front lets nobody through without them")
}
