package limiter

import (
	"unsafe"

	"stint"
	"stint/rule"
	"stint/rule/catalog"
)

// longKeys is the most bytes of descriptor keys that are passed to Options.Unknown.
const longKeys = 200

// deniedUnmatched is the decision on an unmatched request with Options.DenyUnmatched. A retry does
// not help.
var deniedUnmatched = stint.Decision{Limit: stint.NoLimit, Remaining: stint.NoLimit, RetryAfter: stint.Never}

// unmatch marks descriptor i as unmatched, unless an allow list has its entries. It calls
// Options.Unknown for keys that no descriptor of the domain has.
func (v *Verdict) unmatch(domain *rule.Domain, rules *catalog.Catalog, i int, req *Request, l *Limiter) {
	entries := req.Descriptors[i].Entries
	if domain != nil && domain.Exempts(entries) {
		return
	}
	v.Results[i].Unmatched = true
	if l.unknown == nil || domain == nil || rules != nil {
		return // the catalog has keys of its own
	}
	v.unknown = domain.AppendUnknown(v.unknown[:0], entries, longKeys)
	if len(v.unknown) > 0 {
		l.unknown(req.Domain, unsafe.String(&v.unknown[0], len(v.unknown)))
	}
}

// missing marks all descriptors as unmatched, because neither a rule file nor the catalog has the
// domain.
func (v *Verdict) missing(req *Request, l *Limiter) {
	for i := range v.Results {
		v.Results[i].Unmatched = true
	}
	l.Missing(req.Domain)
}

// concludeUnmatched marks a request as unmatched if no limit and no list applies to any descriptor.
// If deny is true and the request takes units, it denies the request.
func (v *Verdict) concludeUnmatched(req *Request, deny bool) {
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
	if deny && req.Op.Asks() && !gives {
		v.Decision = deniedUnmatched
		for i := range v.Results {
			v.Results[i].Decision = deniedUnmatched
		}
	}
}

// DeniesUnmatched reports whether requests are denied to which no limit applies.
func (l *Limiter) DeniesUnmatched() bool { return l.denyUnmatched }

// Missing reports a domain without rules to Options.Unknown, for callers that then make no
// decision.
func (l *Limiter) Missing(domain string) {
	if l.unknown != nil {
		l.unknown(domain[:min(len(domain), longKeys)], "")
	}
}
