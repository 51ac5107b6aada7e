package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint/internal/text"
	"stint/rule"
	"stint/rule/action"
)

// invented finds limits with one bucket for each value that a client invents, and limits that a
// client escapes with an invented value.
func (a *auditor) invented(s *section) {
	http := a.domain.HTTP()
	best, honest := unbound, make([]bound, len(http))
	met := make([][]*rule.Rule, len(http))
	for i := range http {
		held, _ := s.holds(a.domain, &http[i], false)
		best = max(best, held)
		honest[i], met[i] = s.holds(a.domain, &http[i], true)
	}
	c := claims{}
	for i := range http {
		if honest[i] > best {
			c.reads = append(c.reads, inventions(http[i].Actions.Parts())...)
			c.escaped = append(c.escaped, met[i]...)
		}
	}
	if best == unbound {
		for _, n := range limited(a.domain.Nodes()) {
			switch reads, from := s.open(n); from {
			case action.FromClaim:
				c.rules, c.reads = append(c.rules, n.Rules...), append(c.reads, reads...)
			case action.FromWish:
				a.endless(n, reads)
			}
		}
	}
	c.report(a)
}

// claims are the values that a client states about itself while no other limit restricts a client
// that invents them.
type claims struct {
	reads   []string     // where the values are read from
	rules   []*rule.Rule // rules with a bucket for each value
	escaped []*rule.Rule // rules that are not asked if such a value is present
}

// report adds one finding for all claims of a domain.
func (c *claims) report(a *auditor) {
	slices.Sort(c.reads)
	who := "a client that invents a new " + text.JoinWith(slices.Compact(c.reads), "or")
	hint := "add an element with a limit by address, unless a proxy in front authenticates users"
	switch {
	case len(c.rules) > 0 && len(c.escaped) > 0:
		a.find("claimed-key", ruleAt(c.rules[0]), "", fmt.Sprintf("%s has a full bucket of %s, and %s does not limit it", who, names(c.rules), names(c.escaped)), hint)
	case len(c.rules) > 0:
		a.find("claimed-key", ruleAt(c.rules[0]), "", fmt.Sprintf("%s has a full bucket, and no other limit applies to it: %s", who, names(c.rules)), hint)
	case len(c.escaped) > 0:
		a.find("claimed-key", ruleAt(c.escaped[0]), "", fmt.Sprintf("%s is not limited by %s", who, names(c.escaped)), hint)
	}
}

// inventions returns what is read by the parts whose value a client may omit or invent.
func inventions(parts []action.Part) []string {
	var reads []string
	for i := range parts {
		for _, p := range choices(&parts[i]) {
			if invented(&p) {
				reads = append(reads, p.Reads)
			}
		}
	}
	return reads
}

// open returns what is read by the parts that have buckets of their own at a node and that a client
// can invent. from is FromClaim if the client states the values about itself, or FromWish if they
// are only what it asks for. Values of FromWish do not count if a part beside them cannot be
// invented, as in a limit for each path of a user.
func (s *section) open(n *rule.Node) (reads []string, from action.From) {
	for _, w := range s.ends[n] {
		open := w.open(n)
		least := action.FromWish
		for _, p := range open {
			least = min(least, p.From)
		}
		claims := slices.ContainsFunc(open, func(p *action.Part) bool { return p.From == action.FromClaim })
		if len(open) == 0 || !claims && least != action.FromWish {
			continue
		}
		of := action.FromWish
		if claims {
			of = action.FromClaim
		}
		if from != 0 && of > from {
			continue
		}
		if of != from {
			reads, from = nil, of
		}
		for _, p := range open {
			if endless(p) {
				reads = append(reads, p.Reads)
			}
		}
	}
	slices.Sort(reads)
	return slices.Compact(reads), from
}

func (a *auditor) endless(n *rule.Node, reads []string) {
	a.find("endless-key", ruleAt(n.Rules[0]), nameOf(n), fmt.Sprintf("there is a full bucket for each %s, which a client can invent", text.JoinWith(reads, "and")),
		"count by `route`, or add a limit by address beside it; each bucket also uses memory")
}

// wishes are keys that callers commonly use for what a request asks for, which a client can invent.
var wishes = []string{"path", "uri", "url", "request_path", "request_uri", "query", "query_string", "user_agent", "user-agent", "referer"}

// named finds endless keys in a domain without an http section, by the names of the keys only.
func (a *auditor) named() {
	for _, n := range limited(a.domain.Nodes()) {
		var open []string
		for _, l := range n.Path {
			if l.Value == "" || l.Wildcard && !l.Shared {
				open = append(open, l.Key)
			}
		}
		if len(open) > 0 && !slices.ContainsFunc(open, func(key string) bool { return !slices.Contains(wishes, strings.ToLower(key)) }) {
			a.endless(n, open)
		}
	}
}

// secrets are headers whose values must not be readable in the store.
var secrets = []string{
	"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token", "x-access-token",
}

// plain finds limits whose keys contain secrets unhashed.
func (a *auditor) plain(s *section) {
	for _, n := range limited(a.domain.Nodes()) {
		var open []string
		for _, w := range s.ends[n] {
			for i, p := range w.parts {
				name, _ := strings.CutPrefix(strings.ToLower(p.Reads), "header ")
				if l := n.Path[i]; p.Name == "request_headers" && slices.Contains(secrets, name) && (l.Value == "" || l.Wildcard && !l.Shared) {
					open = append(open, p.Reads)
				}
			}
		}
		if len(open) > 0 {
			slices.Sort(open)
			a.find("plain-secret", ruleAt(n.Rules[0]), nameOf(n), fmt.Sprintf("the %s is stored unhashed in keys of the store", text.JoinWith(slices.Compact(open), "and")),
				"describe the request by `api_key` or `cookie`, which store only a SHA-256")
		}
	}
}
