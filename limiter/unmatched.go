package limiter

import (
	"unsafe"

	"stint"
	"stint/rule"
	"stint/rule/catalog"
)

// longKeys is how many bytes of the keys of a descriptor Options.Unknown is shown.
const longKeys = 200

// turnedAway is the decision on a request to which no limit applies, where such requests are
// denied. Waiting does not help.
var turnedAway = stint.Decision{Limit: stint.NoLimit, Remaining: stint.NoLimit, RetryAfter: stint.Never}

// unmatch notes that no limit applies to descriptor number i, unless the rules mean that. It
// reports keys that no descriptor of the domain has.
func (v *Verdict) unmatch(domain *rule.Domain, rules *catalog.Catalog, i int, req *Request, l *Limiter) {
	entries := req.Descriptors[i].Entries
	if domain != nil && domain.Exempts(entries) {
		return
	}
	v.Results[i].Unmatched = true
	if l.unknown == nil || domain == nil || rules != nil {
		return // the catalog has keys of its own
	}
	n := domain.Knows(entries)
	if n == len(entries) {
		return
	}
	from := len(v.keys)
	for j := range entries[:n+1] {
		if j > 0 {
			v.keys = append(v.keys, '/')
		}
		v.keys = append(v.keys, entries[j].Key[:min(len(entries[j].Key), longKeys)]...)
	}
	if shown := v.keys[from:min(len(v.keys), from+longKeys)]; len(shown) > 0 {
		l.unknown(req.Domain, unsafe.String(&shown[0], len(shown)))
	}
	v.keys = v.keys[:from]
}

// missing notes that neither a rule file nor the catalog has the domain.
func (v *Verdict) missing(req *Request, l *Limiter) {
	for i := range v.Results {
		v.Results[i].Unmatched = true
	}
	l.Missing(req.Domain)
}

// nothing notes a request to which no limit applies, and denies it if it asks for something
// and such requests are denied.
func (v *Verdict) nothing(req *Request, deny bool) {
	if v.Listed != nil {
		return
	}
	gives := len(req.Descriptors) > 0
	for i := range v.Results {
		if !v.Results[i].Unmatched {
			return
		}
		gives = gives && req.Descriptors[i].Refund
	}
	v.Unmatched = true
	if deny && req.Op == stint.Ask && !gives {
		v.Decision = turnedAway
		for i := range v.Results {
			v.Results[i].Decision = turnedAway
		}
	}
}

// DeniesUnmatched says whether requests are denied to which no limit applies.
func (l *Limiter) DeniesUnmatched() bool { return l.denyUnmatched }

// Missing reports a domain that no rules have, for callers that ask nothing then.
func (l *Limiter) Missing(domain string) {
	if l.unknown != nil {
		l.unknown(domain[:min(len(domain), longKeys)], "")
	}
}
