package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint/rule"
)

// renamedDomains maps each added domain to the removed domain with the most limits at the same
// places, if these are at least half of the places of both.
func renamedDomains(old, now *rule.Table) map[*rule.Domain]*rule.Domain {
	renamed, taken := map[*rule.Domain]*rule.Domain{}, map[*rule.Domain]bool{}
	for _, n := range now.Domains() {
		if old.Domain(n.Name()) != nil {
			continue
		}
		most := 0
		for _, o := range old.Domains() {
			if now.Domain(o.Name()) != nil || taken[o] {
				continue
			}
			if common := placesInCommon(o, n); common > most {
				renamed[n], most = o, common
			}
		}
		if o := renamed[n]; o != nil {
			taken[o] = true
		}
	}
	return renamed
}

// placesInCommon returns how many nodes with limits are at the same place in two domains, or 0 if
// these are fewer than half of either domain.
func placesInCommon(old, now *rule.Domain) int {
	was, is := limited(old.Nodes()), limited(now.Nodes())
	places := map[string]bool{}
	for _, n := range was {
		places[pathOf(n)] = true
	}
	common := 0
	for _, n := range is {
		if places[pathOf(n)] {
			common++
		}
	}
	if 2*common < max(len(was), len(is)) {
		return 0
	}
	return common
}

// renaming returns the change of new domain n that replaces old domain o.
func renaming(o, n *rule.Domain, now *rule.Table) Change {
	change := whole(n, now, Stricter, "a new domain")
	change.Effects = append(change.Effects, Anew)
	change.Text += fmt.Sprintf("; it replaces %q, and the domain is part of every key: all counts start at zero, so each key has its full limit again, once", o.Name())
	return change
}

// renamedKey is a key of descriptors that replaces another one.
type renamedKey struct{ old, now string }

// renamedKeys returns, by both names, the keys of a level that replace others: one key was added
// and one removed, and at least half of the limits of both have the same place below the key and
// the same numbers.
func renamedKeys(keys []string, nodes map[string][2][]*rule.Node) map[string]*renamedKey {
	renamed := map[string]*renamedKey{}
	for _, now := range keys {
		if len(nodes[now][1]) > 0 {
			continue
		}
		is, most := limitsBelow(nodes[now][0]), 0
		var best *renamedKey
		for _, old := range keys {
			if len(nodes[old][0]) > 0 || renamed[old] != nil {
				continue
			}
			was, common := limitsBelow(nodes[old][1]), 0
			for place := range is {
				if was[place] {
					common++
				}
			}
			if 2*common >= max(len(was), len(is)) && common > most {
				best, most = &renamedKey{old: old, now: now}, common
			}
		}
		if best != nil {
			renamed[best.old], renamed[best.now] = best, best
		}
	}
	return renamed
}

// limitsBelow returns the limits of the nodes of one key and of all nodes below, each with its
// place without that key.
func limitsBelow(level []*rule.Node) map[string]bool {
	all := map[string]bool{}
	if len(level) == 0 {
		return all
	}
	depth := len(level[0].Path) - 1
	for _, n := range limited(level) {
		path := slices.Clone(n.Path[depth:])
		path[0].Key = ""
		place := pathOf(&rule.Node{Path: path})
		for _, r := range n.Rules {
			all[place+": "+limitOf(r)] = true
		}
	}
	return all
}

// comes completes the change of an added rule: its counts start at zero if its key was renamed.
func (k *renamedKey) comes(change *Change, is *rule.Rule) {
	if k == nil || whyHarmless(is) != "" {
		return
	}
	change.Effects = append(change.Effects, Anew)
	change.Text += fmt.Sprintf("; the key %q replaces %q, and counts are kept by key: they start at zero, so each key has up to %d again, once", k.now, k.old, is.Stored.Capacity())
}

// goes completes the change of a removed rule.
func (k *renamedKey) goes(change *Change) {
	if k != nil {
		change.Text += fmt.Sprintf(" (requests that still send %q are not limited by it, see %q)", k.old, k.now)
	}
}

// renamed reports whether two rules are in domains of different names.
func (d *difference) renamed() bool { return d.was.Domain != d.is.Domain }

// sameName reports whether two rules have the same name within their domains.
func sameName(a, b *rule.Rule) bool {
	return a.Given == b.Given && (a.Given != "" || strings.TrimPrefix(a.Name, a.Domain) == strings.TrimPrefix(b.Name, b.Domain))
}

// samePlace reports whether two rules of different domains have the same name and the same path.
func samePlace(a, b *rule.Rule) bool {
	return a.Domain != b.Domain && sameName(a, b) && samePath(a, b)
}

// samePath reports whether the keys and values on the way to two rules are the same.
func samePath(a, b *rule.Rule) bool {
	return slices.EqualFunc(a.Path, b.Path, func(x, y rule.Level) bool {
		return x.Key == y.Key && x.Value == y.Value && x.Wildcard == y.Wildcard && x.Shared == y.Shared
	})
}

// otherKey returns why a rule counts under a different key than the old one.
func (d *difference) otherKey() string {
	switch {
	case d.was.Given == d.is.Given || !samePath(d.was, d.is):
		return "counted under a different key"
	case d.was.Given == "":
		return "named, and the name is part of the key"
	case d.is.Given == "":
		return "no longer named, and the name is part of the key"
	}
	return "renamed, and the name is part of the key"
}
