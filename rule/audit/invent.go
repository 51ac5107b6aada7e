package audit

import (
	"fmt"
	"slices"
	"strings"

	"stint/rule"
	"stint/rule/action"
)

// bounded says whether a limit stands beside all others that nobody goes around by
// making values up.
func (s *section) bounded() bool {
	for n, ways := range s.ends {
		if len(n.Rules) == 0 {
			continue
		}
		for _, w := range ways {
			if w.always() && !slices.ContainsFunc(w.parts, func(p action.Part) bool { return p.From > action.FromProof && p.Values == nil }) {
				return true
			}
		}
	}
	return false
}

// invented looks for limits with a bucket for each value that a client makes up.
func (a *auditor) invented(s *section) {
	if s.bounded() {
		return
	}
	var claimed []*rule.Rule
	var claims []string
	for _, n := range limited(a.domain.Nodes()) {
		open, least := s.open(n)
		switch {
		case len(open) == 0 || least <= action.FromProof:
		case least == action.FromWish:
			a.endless(n, open)
		default:
			claimed, claims = append(claimed, n.Rules...), append(claims, open...)
		}
	}
	if len(claimed) > 0 {
		slices.Sort(claims)
		a.find("claimed-key", ruleAt(claimed[0]), "", fmt.Sprintf("whoever makes up a new %s has a full bucket, and nothing beside limits who does: %s", some(slices.Compact(claims), "or"), names(claimed)),
			"put a limit by address beside it, unless what signs users in stands in front")
	}
}

// open returns what the values are read from that have buckets of their own at a
// node, and which of them can be relied on most.
func (s *section) open(n *rule.Node) (open []string, least action.From) {
	least = action.FromWish
	for _, w := range s.ends[n] {
		for i, p := range w.parts {
			if l := n.Path[i]; p.Values == nil && (l.Value == "" || l.Wildcard && !l.Shared) {
				least = min(least, p.From)
				open = append(open, p.Reads)
			}
		}
	}
	slices.Sort(open)
	return slices.Compact(open), least
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
