package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint"
	"stint/internal/text"
	"stint/rule"
	"stint/rule/action"
)

// fresh is a text that no rule file contains.
const fresh = "\x00"

// witness returns a value that a level matches. Another level matches the value only if it matches
// everything that this level matches: each star is replaced by a text that no rule file contains.
func witness(l rule.Level) string {
	switch {
	case l.Wildcard:
		return strings.ReplaceAll(l.Value, "*", fresh)
	case l.Value == "":
		return fresh
	}
	return l.Value
}

// witnesses returns entries that match a node, unless other nodes match all of its values first.
func witnesses(path []rule.Level) []rule.Entry {
	entries := make([]rule.Entry, len(path))
	for i, l := range path {
		entries[i] = rule.Entry{Key: l.Key, Value: witness(l)}
	}
	return entries
}

// own returns the last level of the path of a node.
func own(n *rule.Node) rule.Level { return n.Path[len(n.Path)-1] }

// nodes finds nodes that can never limit anything, and nodes that hide limits of others.
func (a *auditor) nodes(level []*rule.Node) {
	several := map[string][]*rule.Node{} // nodes that match several values, by key
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
			continue // the nodes below it are unreachable too
		}
		if len(n.Rules) == 0 && len(n.Below()) == 0 && !hides(n, wide) {
			a.find("empty-descriptor", nodeAt(n), "", fmt.Sprintf("descriptor %s has no limit and no descriptors below it, and hides no other", own(n)), "give it a rate_limit, or remove it")
		}
		for _, m := range wide {
			if wider(m, n) {
				a.hidden(n, m)
				break // only the first one would match
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

// fallbacks finds keys that are limited only for exact values. several are the nodes that match
// several values, by key.
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
		a.find("no-fallback", nodeAt(nodes[0]), "", fmt.Sprintf("%s has descriptors for exact values only (%s), so no other value is limited by them", key, text.Join(values)),
			fmt.Sprintf("add a descriptor {key: %s, rate_limit: ...} without a value for all others, or run the service with --unmatched deny", key))
	}
}

// selectors are keys that callers commonly use for what a request asks for or for a configured
// value. Rules select some of these values on purpose.
var selectors = []string{"generic_key", "header_match", "query_match", "path", ":path", "uri", "url", "request_path", "request_uri", "route", "method", ":method", "host"}

// selects reports whether rules limit only some values of a key on purpose: values that the http
// section defines, or what a request asks for.
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

// hides reports whether another node would match some values of n if n did not exist. wide are the
// nodes of the same key that match several values, in order.
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
	what, hint := "never matches", "put the more specific pattern first, or remove one of the two"
	if by != nil && len(by.Path) == len(n.Path) {
		what += fmt.Sprintf(": %s in %s comes first", own(by), nodeAt(by).from(nodeAt(n)))
	}
	a.find("unreachable-rule", nodeAt(n), nameOf(n), fmt.Sprintf("descriptor %s %s", own(n), what), hint)
}

// nameOf returns the name of the only rule of a node, or "" if it does not have exactly one.
func nameOf(n *rule.Node) string {
	if len(n.Rules) == 1 {
		return n.Rules[0].Name
	}
	return ""
}

// wider reports whether m would match all values of n if n did not exist.
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

// hidden finds limits below the wider node m that no longer apply to the values that n matches. It
// ignores a node that is unlimited or empty, because its author wants no limit there.
func (a *auditor) hidden(n, m *rule.Node) {
	if len(n.Rules) == 0 && len(n.Below()) == 0 || slices.ContainsFunc(n.Rules, func(r *rule.Rule) bool { return r.Limit.Algorithm() == stint.Unlimited }) {
		return
	}
	if a.domain.Find(witnesses(m.Path)) != m {
		return // n matches all values of m: reported as unreachable-rule
	}
	var lost []string
	for _, below := range limited(m.Below()) {
		entries := append(witnesses(n.Path), witnesses(below.Path[len(m.Path):])...)
		if a.domain.Find(entries) == nil {
			lost = append(lost, below.Rules[0].Name)
		}
	}
	if len(lost) > 0 {
		a.find("hidden-below", nodeAt(n), nameOf(n), fmt.Sprintf("%s matches requests before %s in %s, so the limits below that descriptor do not apply to them: %s", own(n), own(m), nodeAt(m).from(nodeAt(n)), text.Join(lost)),
			"repeat below it the limits that should apply; matching never goes back to the wider descriptor")
	}
}

// limited returns the nodes with limits, of a level and of all levels below it.
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

// names joins the names of rules, with at most five of them.
func names(rules []*rule.Rule) string {
	all := make([]string, len(rules))
	for i, r := range rules {
		all[i] = r.Name
	}
	return text.Join(all)
}
