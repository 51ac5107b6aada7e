package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint/rule"
	"stint/rule/action"
)

// invented looks for limits with a bucket for each value that a client makes up, and for
// those that such a value takes the place of.
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

// claims is what a client says of itself, and no limit beside it holds who makes it up.
type claims struct {
	reads   []string     // of the request
	rules   []*rule.Rule // with a bucket for each value
	escaped []*rule.Rule // in whose place such a value is counted
}

// report notes one finding for all claims of a domain.
func (c *claims) report(a *auditor) {
	slices.Sort(c.reads)
	who := "whoever makes up a new " + some(slices.Compact(c.reads), "or")
	hint := "put a limit by address beside it, in an element of its own, unless what signs users in stands in front"
	switch {
	case len(c.rules) > 0 && len(c.escaped) > 0:
		a.find("claimed-key", ruleAt(c.rules[0]), "", fmt.Sprintf("%s has a full bucket of %s, and is not held to %s", who, names(c.rules), names(c.escaped)), hint)
	case len(c.rules) > 0:
		a.find("claimed-key", ruleAt(c.rules[0]), "", fmt.Sprintf("%s has a full bucket, and nothing beside limits who does: %s", who, names(c.rules)), hint)
	case len(c.escaped) > 0:
		a.find("claimed-key", ruleAt(c.escaped[0]), "", fmt.Sprintf("%s is not held to %s", who, names(c.escaped)), hint)
	}
}

// inventions returns what the parts read that a client may leave out or make up.
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

// open returns what a client makes up that has buckets of its own at a node, and whether
// it says that of itself or asks for it. What it only asks for is nobody's where a value
// beside it cannot be made up: a limit for each path of a user.
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
	a.find("endless-key", ruleAt(n.Rules[0]), nameOf(n), fmt.Sprintf("there is a full bucket for each %s, which a client makes up as it likes", some(reads, "and")),
		"count by `route`, or put a limit by address beside it; each bucket takes memory, too")
}

// wishes are keys under which those who bring descriptors send what a client makes
// up.
var wishes = []string{"path", "uri", "url", "request_path", "request_uri", "query", "query_string", "user_agent", "user-agent", "referer"}

// named is the same for a domain whose descriptors others bring: the names of the
// keys are all that is known.
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

// secrets are headers whose values whoever reads the store could use.
var secrets = []string{
	"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token", "x-access-token",
}

// plain looks for limits whose keys hold secrets as they stand.
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
			a.find("plain-secret", ruleAt(n.Rules[0]), nameOf(n), fmt.Sprintf("the %s stands as it is in keys of the store", some(slices.Compact(open), "and")),
				"describe the request by `api_key` or `cookie`, which take the SHA-256 of what they read")
		}
	}
}
