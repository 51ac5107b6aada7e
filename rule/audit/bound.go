package audit

import (
	"slices"

	"stint"
	"stint/rule"
	"stint/rule/action"
)

// bound is how well an element limits a client that invents every value it can.
type bound uint8

const (
	// unbound: the client can send requests of which no two are charged to the same bucket.
	unbound bound = iota
	// together: every request is charged to one bucket, which all clients may share.
	together
	// apart: every request is charged to a bucket of the client's address or of a verified value.
	apart
)

// maxForms is the most requests that are tried against one element. An element with more forms
// counts as unbound.
const maxForms = 20_000

// attack tries the requests that a client can send against one element of http.rate_limits. The
// client chooses which values it sends and which it omits. It cannot choose its address or a
// verified value.
type attack struct {
	domain *rule.Domain
	sec    *section
	groups bool
	// honest means that the client omits each value that it would have to invent.
	honest bool
	tried  int
	// several caches the values that are tried for a key.
	several map[rank][]string
	// met are the rules that limit the client in at least one form.
	met []*rule.Rule
}

// holds returns how well an element limits the client with the request that is best for the client,
// and the rules that do so.
func (s *section) holds(d *rule.Domain, h *rule.HTTPLimit, honest bool) (bound, []*rule.Rule) {
	a := &attack{domain: d, sec: s, groups: h.Groups, honest: honest, several: map[rank][]string{}}
	worst := a.from(h.Actions.Parts(), form{})
	return worst, a.met
}

// form is a request as described by the first parts of an element.
type form struct {
	entries []rule.Entry
	node    *rule.Node // node of these entries; nil for none
	madeUp  bool       // the bucket depends on a value that the client can invent
	known   bool       // the bucket depends on a value that the client cannot invent
	held    bound      // bound by the descriptors of the outer groups
}

// from returns the weakest bound of all forms that begin with f.
func (a *attack) from(parts []action.Part, f form) bound {
	if a.tried++; a.tried > maxForms {
		return unbound
	}
	if len(parts) == 0 {
		return a.end(f)
	}
	worst := apart
	for _, p := range choices(&parts[0]) {
		if a.honest && invented(&p) {
			continue
		}
		for _, value := range a.values(&p, &f) {
			if worst = min(worst, a.from(parts[1:], a.next(f, &p, value))); worst == unbound {
				return worst
			}
		}
	}
	switch {
	case parts[0].Always:
		return worst
	case parts[0].Optional:
		return min(worst, a.from(parts[1:], f))
	}
	return min(worst, f.held) // without the value the descriptor is not complete
}

// choices returns the actions that may produce the entry of a part. For first_of these are the
// alternatives up to the first one that every request has a value for.
func choices(p *action.Part) []action.Part {
	if p.First == nil {
		return []action.Part{*p}
	}
	var all []action.Part
	for i := range p.First {
		all = append(all, choices(&p.First[i])...)
		if p.First[i].Always {
			break
		}
	}
	return all
}

// invented reports whether the value of a part is either omitted or invented by the client.
func invented(p *action.Part) bool { return endless(p) && !p.Always }

// endless reports whether a client can send a new value of the part with each request.
func endless(p *action.Part) bool { return p.From > action.FromProof && p.Values == nil }

// values returns the values of a part to try: one new value, and one for each pattern that it may
// match. Exact values (the key of a partner, an own network) are left out, because only one client
// has them.
func (a *attack) values(p *action.Part, f *form) []string {
	switch {
	case p.Values != nil:
		return p.Values
	case !endless(p) || len(f.entries) > 0 && f.node == nil:
		return []string{fresh}
	}
	at := rank{f.node, p.Key}
	if a.several[at] == nil {
		level := a.domain.Nodes()
		if f.node != nil {
			level = f.node.Below()
		}
		a.several[at] = []string{fresh}
		for _, n := range level {
			if l := own(n); l.Key == p.Key && l.Wildcard {
				a.several[at] = append(a.several[at], witness(l))
			}
		}
	}
	return a.several[at]
}

// rank is a key below a node; above is nil at the outermost level.
type rank struct {
	above *rule.Node
	key   string
}

// next returns form f with the entry of part p added.
func (a *attack) next(f form, p *action.Part, value string) form {
	f.entries = append(slices.Clone(f.entries), rule.Entry{Key: p.Key, Value: value})
	f.node = a.domain.Find(f.entries)
	if f.node != nil {
		if at := own(f.node); at.Value == "" || at.Wildcard && !at.Shared {
			f.madeUp = f.madeUp || endless(p)
			f.known = f.known || p.From == action.FromNetwork || p.From == action.FromProof
		}
	}
	if a.groups {
		f.held = max(f.held, a.at(f))
	}
	return f
}

// end returns the bound of a complete descriptor.
func (a *attack) end(f form) bound { return max(f.held, a.at(f)) }

// at returns the bound by the limits of the node of a form.
func (a *attack) at(f form) bound {
	if f.node == nil || f.madeUp {
		return unbound
	}
	i := slices.IndexFunc(f.node.Rules, func(r *rule.Rule) bool { return a.sec.denies(r, nil) })
	if i < 0 {
		return unbound
	}
	if !slices.Contains(a.met, f.node.Rules[i]) {
		a.met = append(a.met, f.node.Rules[i])
	}
	if f.known {
		return apart
	}
	return together
}

// denies reports whether a rule denies requests by itself, and no client can make it be replaced by
// a rule that does not. asked are the rules already visited.
func (s *section) denies(r *rule.Rule, asked []*rule.Rule) bool {
	if r.Shadow || r.Quota || r.Limit.Algorithm() == stint.Unlimited || slices.Contains(asked, r) {
		return false
	}
	if r.Given == "" {
		return true
	}
	for _, n := range s.replacing {
		for _, by := range n.Rules {
			if slices.Contains(by.Replaces, r.Given) && (madeUp(n, s.ends[n]) || !s.denies(by, append(asked, r))) {
				return false
			}
		}
	}
	return true
}

// madeUp reports whether a client can use a new bucket of the node with each request.
func madeUp(n *rule.Node, ways []*way) bool {
	return slices.ContainsFunc(ways, func(w *way) bool {
		return slices.ContainsFunc(w.open(n), func(p *action.Part) bool { return endless(p) })
	})
}

// open returns the parts of a way whose values each have a bucket of their own at node n.
func (w *way) open(n *rule.Node) []*action.Part {
	var open []*action.Part
	for i := range w.parts {
		if at := n.Path[i]; w.parts[i].Values == nil && (at.Value == "" || at.Wildcard && !at.Shared) {
			open = append(open, &w.parts[i])
		}
	}
	return open
}
