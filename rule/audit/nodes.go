package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint"
	"stint/rule"
	"stint/rule/action"
)

// fresh stands for a text that no rule file holds.
const fresh = "\x00"

// witness returns a value that a level matches, and another only if that matches
// all that this one does: every star stands for a text that no file holds.
func witness(l rule.Level) string {
	switch {
	case l.Wildcard:
		return strings.ReplaceAll(l.Value, "*", fresh)
	case l.Value == "":
		return fresh
	}
	return l.Value
}

// witnesses returns entries that lead to a node, unless others take them all.
func witnesses(path []rule.Level) []rule.Entry {
	entries := make([]rule.Entry, len(path))
	for i, l := range path {
		entries[i] = rule.Entry{Key: l.Key, Value: witness(l)}
	}
	return entries
}

// own returns the level of a node itself.
func own(n *rule.Node) rule.Level { return n.Path[len(n.Path)-1] }

// nodes looks for nodes that can never limit anything, and for those that keep
// others from it.
func (a *auditor) nodes(level []*rule.Node) {
	several := map[string][]*rule.Node{} // those of several values, by key
	for _, n := range level {
		if at := own(n); at.Value == "" || at.Wildcard {
			several[at.Key] = append(several[at.Key], n)
		}
	}
	a.fallbacks(level, several)
	for _, n := range level {
		wide := several[own(n).Key]
		if by := a.domain.Find(witnesses(n.Path)); by != n {
			a.unreachable(n, by)
			continue // and so is all below
		}
		if len(n.Rules) == 0 && len(n.Below()) == 0 && !hides(n, wide) {
			a.find("empty-descriptor", nodeAt(n), "", fmt.Sprintf("descriptor %s has neither a limit nor descriptors, and hides no other", own(n)), "give it a rate_limit, or leave it out")
		}
		for _, m := range wide {
			if wider(m, n) {
				a.hidden(n, m)
				break // the first is the one that would match
			}
		}
		for i, r := range n.Rules {
			for _, other := range n.Rules[:i] {
				a.loosest(other, r)
			}
		}
		a.nodes(n.Below())
	}
}

// fallbacks looks for keys of which only exact values are limited. Those of several values
// are given by key.
func (a *auditor) fallbacks(level []*rule.Node, several map[string][]*rule.Node) {
	exact := map[string][]*rule.Node{}
	for _, n := range level {
		if key := own(n).Key; several[key] == nil {
			exact[key] = append(exact[key], n)
		}
	}
	for key, nodes := range exact {
		bounds := func(n *rule.Node) bool {
			return slices.ContainsFunc(n.Rules, func(r *rule.Rule) bool { return r.Limit.Algorithm() != stint.Unlimited && !a.pools[r] })
		}
		if !slices.ContainsFunc(limited(nodes), bounds) || a.selects(key) {
			continue
		}
		values := make([]string, len(nodes))
		for i, n := range nodes {
			values[i] = own(n).Value
		}
		a.find("no-fallback", nodeAt(nodes[0]), "", fmt.Sprintf("%s has descriptors for exact values alone (%s), and any other value is not limited by them", key, few(values)),
			fmt.Sprintf("add a descriptor {key: %s, rate_limit: ...} without a value for all others, or run the service with --unmatched deny", key))
	}
}

// selectors are keys under which those who bring descriptors send what a request asks for or
// what a configuration says: rules choose among its values.
var selectors = []string{"generic_key", "header_match", "query_match", "path", ":path", "uri", "url", "request_path", "request_uri", "route", "method", ":method", "host"}

// selects reports whether rules choose among the values of a key on purpose: those that the
// http section itself has, and what a request asks for.
func (a *auditor) selects(key string) bool {
	described := false
	http := a.domain.HTTP()
	for i := range http {
		for _, part := range http[i].Actions.Parts() {
			for _, p := range choices(&part) {
				if p.Key != key {
					continue
				}
				if p.Values == nil && p.From != action.FromWish {
					return false
				}
				described = true
			}
		}
	}
	return described || slices.Contains(selectors, strings.ToLower(key))
}

// hides reports whether others of the level, those of several values under the key of n in their
// order, would match some of what n does.
func hides(n *rule.Node, wide []*rule.Node) bool {
	at, place := own(n), slices.Index(wide, n)
	for i, m := range wide {
		later := place >= 0 && i > place
		if of := own(m); m != n && at.Value != "" && (of.Value == "" || later || matches(of.Value, at.Value)) {
			return true
		}
	}
	return false
}

func (a *auditor) unreachable(n, by *rule.Node) {
	what, hint := "never matches", "put the more special pattern first, or leave one of the two out"
	if by != nil && len(by.Path) == len(n.Path) {
		what += fmt.Sprintf(": %s in %s comes first", own(by), nodeAt(by).from(nodeAt(n)))
	}
	a.find("unreachable-rule", nodeAt(n), nameOf(n), fmt.Sprintf("descriptor %s %s", own(n), what), hint)
}

// nameOf returns the name of the only rule of a node, "" where there are others.
func nameOf(n *rule.Node) string {
	if len(n.Rules) == 1 {
		return n.Rules[0].Name
	}
	return ""
}

// wider reports whether m would match what n does, if n were not there.
func wider(m, n *rule.Node) bool {
	of, at := own(m), own(n)
	switch {
	case m == n || of.Key != at.Key || at.Value == "":
		return false
	case of.Value == "":
		return true
	}
	return of.Wildcard && matches(of.Value, witness(at))
}

// matches reports whether a pattern matches a value.
func matches(pattern, value string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	value, ok := strings.CutPrefix(value, parts[0])
	if !ok || last == 0 {
		return ok && value == ""
	}
	for _, part := range parts[1:last] {
		_, after, ok := strings.Cut(value, part)
		if !ok {
			return false
		}
		value = after
	}
	return strings.HasSuffix(value, parts[last])
}

// hidden looks for limits below the wider node m that do not hold for what n takes
// from it. Whoever takes all limits away (an entry of an allow list, unlimited) means
// it.
func (a *auditor) hidden(n, m *rule.Node) {
	if len(n.Rules) == 0 && len(n.Below()) == 0 || slices.ContainsFunc(n.Rules, func(r *rule.Rule) bool { return r.Limit.Algorithm() == stint.Unlimited }) {
		return
	}
	if a.domain.Find(witnesses(m.Path)) != m {
		return // it takes all of them, which is said there
	}
	var lost []string
	for _, below := range limited(m.Below()) {
		entries := append(witnesses(n.Path), witnesses(below.Path[len(m.Path):])...)
		if a.domain.Find(entries) == nil {
			lost = append(lost, below.Rules[0].Name)
		}
	}
	if len(lost) > 0 {
		a.find("hidden-below", nodeAt(n), nameOf(n), fmt.Sprintf("%s takes its requests away from %s in %s, and what stands below that does not hold for them: %s", own(n), own(m), nodeAt(m).from(nodeAt(n)), few(lost)),
			"repeat below it what should hold; there is no way back to the wider descriptor")
	}
}

// limited returns the nodes that have limits, of a level and of all below it.
func limited(level []*rule.Node) []*rule.Node {
	var all []*rule.Node
	for _, n := range level {
		if len(n.Rules) > 0 {
			all = append(all, n)
		}
		all = append(all, limited(n.Below())...)
	}
	return all
}

// few names some of many.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// some is the same with a word before the last.
func some(names []string, word string) string {
	if last := len(names) - 1; last > 0 && last < 5 {
		return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
	}
	return few(names)
}

// names names some of many rules.
func names(rules []*rule.Rule) string {
	all := make([]string, len(rules))
	for i, r := range rules {
		all[i] = r.Name
	}
	return few(all)
}
