package audit

import (
	"slices"

	"stint"
	"stint/rule"
	"stint/rule/action"
)

// bound says what holds a client that makes up all it can.
type bound uint8

const (
	// unbound: some request that the client makes up is charged to no bucket that the next
	// one is charged to as well.
	unbound bound = iota
	// together: every request is charged to a bucket, and all clients may share it.
	together
	// apart: every request is charged to a bucket of its address, or of what was verified.
	apart
)

// maxForms bounds the requests that are tried against one element. An element of more
// forms counts as one that holds nobody.
const maxForms = 20_000

// attack tries the requests that a client can make up against one element of
// http.rate_limits. The client chooses what it sends and what it leaves out; it cannot choose
// its address, nor what is verified.
type attack struct {
	domain *rule.Domain
	sec    *section
	groups bool
	// honest: the client leaves out whatever it would have to make up.
	honest bool
	tried  int
	// several are the values of a key that are tried.
	several map[rank][]string
	// met are the rules that hold the client in some form.
	met []*rule.Rule
}

// holds returns what an element does to the request that fares best with it.
func (s *section) holds(d *rule.Domain, h *rule.HTTPLimit, honest bool) (bound, []*rule.Rule) {
	a := &attack{domain: d, sec: s, groups: h.Groups, honest: honest, several: map[rank][]string{}}
	worst := a.from(h.Actions.Parts(), form{})
	return worst, a.met
}

// form is a request, as far as the parts of an element have described it.
type form struct {
	entries []rule.Entry
	node    *rule.Node // where these lead, nil where nowhere
	madeUp  bool       // the bucket depends on a value that the client makes up
	known   bool       // the bucket depends on a value that it cannot make up
	held    bound      // by the descriptors of the groups around
}

// from returns what holds the client in the worst form that begins with f.
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
	return min(worst, f.held) // without the value the descriptor ends before it
}

// choices are the actions that may make the entry of a part: of first_of those up to the
// first that every request has a value for.
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

// invented reports whether a client may leave out the value of a part, and otherwise makes
// it up.
func invented(p *action.Part) bool { return endless(p) && !p.Always }

// endless reports whether a client has a new value of the part for each request.
func endless(p *action.Part) bool { return p.From > action.FromProof && p.Values == nil }

// values returns one value of the part for each way in which the rules treat those that a
// client may have. What one value of many is (a partner's key, an own network) is for that
// one alone.
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

// rank is a key below a node, or among the outermost where there is none.
type rank struct {
	above *rule.Node
	key   string
}

// next adds the entry of a part to a form.
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

// end returns what holds the client where the descriptor is complete.
func (a *attack) end(f form) bound { return max(f.held, a.at(f)) }

// at returns what the limits of the node do where a form leads.
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

// denies reports whether a rule denies requests by itself, and no client can have it replaced
// by a rule that holds nobody.
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

// madeUp reports whether a client has a new bucket of the node for each request.
func madeUp(n *rule.Node, ways []*way) bool {
	return slices.ContainsFunc(ways, func(w *way) bool {
		return slices.ContainsFunc(w.open(n), func(p *action.Part) bool { return endless(p) })
	})
}

// open returns the parts of a way to a node whose values have buckets of their own.
func (w *way) open(n *rule.Node) []*action.Part {
	var open []*action.Part
	for i := range w.parts {
		if at := n.Path[i]; w.parts[i].Values == nil && (at.Value == "" || at.Wildcard && !at.Shared) {
			open = append(open, &w.parts[i])
		}
	}
	return open
}
