package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint/internal/text"
	"stint/rule"
	"stint/rule/action"
)

// way is one form of the descriptors that an element of the http section makes.
type way struct {
	of    *rule.HTTPLimit
	parts []action.Part
}

// maxWays is the most forms kept for one element. Each optional entry doubles their number.
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

// section is where the descriptors of the http section of a domain lead.
type section struct {
	ways    []way
	ends    map[*rule.Node][]*way // descriptors that end at the node
	through map[*rule.Node]bool   // nodes at which a descriptor continues
	cannot  map[*rule.Node]string // why no action produces the value of the node

	replacing []*rule.Node // nodes with a limit that replaces others and at which descriptors end
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

// follow records which nodes the descriptors of a form reach, from a depth on.
func (s *section) follow(d *rule.Domain, w *way, depth int, level []*rule.Node, entries []rule.Entry) {
	part := &w.parts[depth]
	for _, n := range level {
		at := own(n)
		if at.Key != part.Key {
			continue
		}
		value, why, ok := valueFor(d, part, n, entries)
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

// valueFor returns a value of part that leads to node n after the entries before. If there is none, it
// returns why; why may be empty.
func valueFor(d *rule.Domain, part *action.Part, n *rule.Node, before []rule.Entry) (value, why string, ok bool) {
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
			return "", fmt.Sprintf("%s produces only %s", part.Name, text.Join(part.Values)), false
		}
		return "", "", false // earlier nodes match all values of the part
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

// http checks how requests become descriptors.
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
			a.find("passed-by", nodeAt(n), nameOf(n), fmt.Sprintf("the http section produces descriptors that continue below %s, and none that ends there: only the node of the last entry counts", pathOf(n)),
				"add an element to http.rate_limits whose actions end there; `groups` makes a descriptor for each level")
		default:
			outside = append(outside, n.Rules...)
		}
	}
	for n, why := range s.cannot {
		if s.ends[n] == nil && !s.through[n] {
			a.find("impossible-value", nodeAt(n), nameOf(n), fmt.Sprintf("no request of the http section is %s: %s", own(n), why), "write the value as the action produces it, or a pattern that matches it")
		}
	}
	a.outside(outside)
	a.prices(s)
	a.groups(s)
	a.uncounted(s)
	a.invented(s)
	a.plain(s)
}

// blocked reports whether a node, or one above it, has a value that no action produces, or is never
// matched.
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

// element finds actions that make a descriptor which no rule matches.
func (a *auditor) element(h *rule.HTTPLimit) {
	levels := [][]*rule.Node{a.domain.Nodes()}
	var path []string
	for _, either := range h.Actions.Keys() { // the entry after an optional one may be at several levels
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
			a.find("action-without-rule", a.inFile(h.Line), "", fmt.Sprintf("these actions describe a request as %s, but the rules have no such descriptor", strings.Join(path, "/")),
				"the keys of the actions, in their order, are the keys of nested descriptors")
			return
		}
		levels = below
	}
}

// outside reports the rules that apply only to callers that send descriptors themselves.
func (a *auditor) outside(rules []*rule.Rule) {
	rules = slices.DeleteFunc(rules, func(r *rule.Rule) bool { return a.pools[r] })
	if len(rules) == 0 {
		return
	}
	a.find("outside-http", ruleAt(rules[0]), "", "the http section never reaches these limits, only callers that send descriptors do: "+names(rules),
		"add elements to http.rate_limits if requests of the middleware should count there")
}

// prices finds costs above the capacity of a limit.
func (a *auditor) prices(s *section) {
	for n, ways := range s.ends {
		for _, r := range n.Rules {
			for _, w := range ways {
				for _, p := range w.of.Cost.Prices() {
					if most := most(r); most > 0 && int64(p.Units) > most {
						a.find("cost-above-limit", ruleAt(r), r.Name, fmt.Sprintf("%s costs %d (%s), but the capacity of the limit is %d: it is always denied", p.Of, p.Units, a.inFile(w.of.Line).from(ruleAt(r)), most),
							"raise the limit, or its burst, or lower the cost")
					}
				}
			}
		}
	}
}

// groups finds limits of a group that never deny because the limit of an outer group denies first.
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

// asked reports whether each inner descriptor has an outer one with the same first parts and the
// same cost.
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

// uncounted finds a section that reads only values that clients may omit.
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
		return // nothing is limited at all, which other findings report
	}
	slices.Sort(reads)
	a.find("uncounted-request", a.inFile(a.domain.HTTP()[0].Line), "", fmt.Sprintf("a request that leaves out %s is not counted at all", text.JoinWith(slices.Compact(reads), "and")),
		"add an element that every request has, such as `actions: [{remote_address: {}}]` with a limit, unless a proxy in front refuses requests without it")
}
