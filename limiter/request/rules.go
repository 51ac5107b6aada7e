// Package request decides the requests of all protocols, HTTP and gRPC alike: by the rules of a
// domain, or by a single limit without rules.
package request

import (
	"context"
	"unsafe"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/rule"
	"stint/rule/denial"
)

// Outcome is how a decision ended.
type Outcome uint8

const (
	// Decided means that the verdict holds whether the request may pass.
	Decided Outcome = iota

	// Undecided means that the store could not decide. The failure policy of the limit
	// applies, see OnFailure.
	Undecided

	// NoLimit means that no limit applies to the request.
	NoLimit

	// Unidentified means that the request has neither the key nor the address by which its
	// bucket is found.
	Unidentified

	// Invalid means that the request states a cost that is not a number, or a path that
	// servers may read as too many other paths, or that its API key is not valid.
	Invalid
)

// outcomeOf returns what became outcomeOf a question to the store.
func outcomeOf(err error) (Outcome, error) {
	if err != nil {
		return Undecided, err
	}
	return Decided, nil
}

// Scratch is the memory of one decision. The zero Scratch is ready to use. It can be used again
// once its verdict is settled or no longer needed. It is used by one goroutine at a time.
type Scratch struct {
	// Earlier is the decision of the phase Early on the same request; nil if there was none. If it is
	// set, the next decision is of the phase Late.
	Earlier *Earlier

	// Hold is [limiter.Request].Hold of the next decisions by rules.
	Hold func(v *limiter.Verdict) denial.Mode

	// Verdict is the decision where the outcome is Decided. Where it is Undecided, only
	// Verdict.Asked has a meaning: it lists the limits that were to decide.
	Verdict limiter.Verdict

	described      []rule.Descriptor
	descriptors    []limiter.Descriptor
	catalogEntries []rule.Entry // of the descriptor that describeToCatalog adds
	key            []byte
	request        limiter.Request
}

// Earlier is what the phase Late needs of the decision of the phase Early.
type Earlier struct {
	Listed    bool // a list decided
	Unmatched bool // nothing applied
}

// EarlierOf returns what the phase Late needs of a verdict.
func EarlierOf(v *limiter.Verdict) Earlier { return Earlier{v.Listed != nil, v.Unmatched} }

// Clear drops the references to the request, and keeps the memory for the next one.
func (s *Scratch) Clear() { s.request, s.Earlier = limiter.Request{}, nil }

// ByRules decides requests by the rules of a domain. It is immutable.
type ByRules struct {
	Limiter *limiter.Limiter
	Domain  string

	// Phase is rule.Early for the first of two decisions about a request. Otherwise it is
	// rule.AnyPhase; then a decision with Scratch.Earlier is of the phase rule.Late.
	Phase rule.Phase
}

// phase returns the phase of a decision.
func (b *ByRules) phase(s *Scratch) rule.Phase {
	if s.Earlier != nil {
		return rule.Late
	}
	return b.Phase
}

// Decide decides a request into s.Verdict. The domain's http.rate_limits turn the request into
// descriptors, each with its cost. answers reports whether the caller will call
// [limiter.Limiter.Settle] with the status of the response.
//
// Where the catalog has rules of the domain, Decide adds one descriptor for them: method, path,
// and the user and the plan of the first descriptor that has them. So these rules apply whatever
// the rule file says. In a domain without http.rate_limits the user is the client's address, of
// IPv6 its /64. The added descriptor costs one unit. If a request is decided in two phases, these
// rules belong to the later one where http.rate_limits has the action identity, else to the earlier
// one.
//
// A request that an allow list exempts in the phase Early is exempt in Late too, except from bans.
// Options.DenyUnmatched of the limiter denies a request if neither phase has a limit for it.
func (b *ByRules) Decide(ctx context.Context, a rule.Attributes, answers bool, s *Scratch) (Outcome, error) {
	table := b.Limiter.Table()
	var domain *rule.Domain
	if table != nil {
		domain = table.Domain(b.Domain)
	}
	rules := b.Limiter.Catalog()
	phase := b.phase(s)
	cataloged := rules != nil && rules.Has(b.Domain) && (phase == rule.AnyPhase || domain.ReadsIdentity() == (phase == rule.Late))
	if domain == nil && !cataloged {
		return b.decideNoLimit(ctx, a, nil, s)
	}
	s.described = s.described[:0]
	if domain != nil {
		var err error
		if s.described, err = domain.Describe(s.described, a, phase); err != nil {
			if b.banned(a, table, s) {
				return Decided, nil
			}
			s.Verdict.Clear()
			return Invalid, err
		}
	}
	s.descriptors = s.descriptors[:0]
	for _, d := range s.described {
		s.descriptors = append(s.descriptors, limiter.Descriptor{Entries: d.Entries, Cost: d.Cost})
	}
	if cataloged {
		s.describeToCatalog(a, domain == nil || !domain.HasHTTP())
	}
	s.request = limiter.Request{
		Domain: b.Domain, Descriptors: s.descriptors, Attributes: a, Table: table, Answers: answers, Hold: s.Hold,
		ID: requestID(a), Matched: phase == rule.Early && domain.ReadsIdentity() || phase == rule.Late && !s.Earlier.Unmatched,
	}
	switch {
	case phase == rule.Late && (s.Earlier.Listed || len(s.descriptors) == 0 && !s.Earlier.Unmatched):
		return b.decideBans(s)
	case len(s.descriptors) == 0 && len(domain.Lists()) == 0 && (!s.request.Matched || !b.Limiter.DeniesUnmatched()):
		return b.decideNoLimit(ctx, a, table, s)
	}
	return outcomeOf(b.Limiter.Decide(ctx, &s.request, &s.Verdict))
}

// requestID returns the header X-Request-Id of a request.
func requestID(a rule.Attributes) string {
	id, _ := a.Header("x-request-id") // in this spelling no implementation needs memory
	return id
}

// Again decides the request of the last Decide once more, with the same descriptors. It returns false
// if other rules are in force now: then Decide reads the request again.
func (b *ByRules) Again(ctx context.Context, s *Scratch) (what Outcome, same bool, err error) {
	if s.request.Table != b.Limiter.Table() {
		return Undecided, false, nil
	}
	what, err = outcomeOf(b.Limiter.Decide(ctx, &s.request, &s.Verdict))
	return what, true, err
}

// Descriptors returns the descriptors of the last request that Decide decided by rules. They are valid
// until the next one.
func (s *Scratch) Descriptors() []limiter.Descriptor { return s.request.Descriptors }

// decideNoLimit decides a request to which no limit can apply: it passes, unless its client is
// banned or such requests are denied.
func (b *ByRules) decideNoLimit(ctx context.Context, a rule.Attributes, table *rule.Table, s *Scratch) (Outcome, error) {
	if b.banned(a, table, s) {
		return Decided, nil
	}
	if !b.Limiter.DeniesUnmatched() {
		if !b.HasRules() {
			b.Limiter.Missing(b.Domain)
		}
		s.Verdict.Clear()
		return NoLimit, nil
	}
	return outcomeOf(b.Limiter.Decide(ctx, &s.request, &s.Verdict))
}

// decideBans denies the request if its client is banned; else it passes.
func (b *ByRules) decideBans(s *Scratch) (Outcome, error) {
	if b.Limiter.DenyBanned(&s.request, &s.Verdict) {
		return Decided, nil
	}
	s.Verdict.Clear()
	return NoLimit, nil
}

// banned denies a request without descriptors if its client is banned, and reports whether it did.
func (b *ByRules) banned(a rule.Attributes, table *rule.Table, s *Scratch) bool {
	s.request = limiter.Request{Domain: b.Domain, Attributes: a, Table: table}
	return b.Limiter.DenyBanned(&s.request, &s.Verdict)
}

// HasRules reports whether the domain has any rules. A domain without rules limits nothing, so
// a misspelled name would go unnoticed.
func (b *ByRules) HasRules() bool {
	table, rules := b.Limiter.Table(), b.Limiter.Catalog()
	return table != nil && table.Domain(b.Domain) != nil || rules != nil && rules.Has(b.Domain)
}

// describeToCatalog adds the descriptor that the rules of the catalog match.
func (s *Scratch) describeToCatalog(a rule.Attributes, byAddress bool) {
	s.catalogEntries = append(s.catalogEntries[:0], rule.Entry{Key: "method", Value: a.Method()}, rule.Entry{Key: "path", Value: a.Path()})
	for i := range s.described {
		for _, e := range s.described[i].Entries {
			if e.Key == "user" || e.Key == "plan" {
				s.catalogEntries = append(s.catalogEntries, e) // the first one counts
			}
		}
	}
	if client := web.GroupAddr(a.RemoteAddress(), 0); byAddress && client.IsValid() {
		s.key = client.AppendTo(s.key[:0])
		s.catalogEntries = append(s.catalogEntries, rule.Entry{Key: "user", Value: unsafe.String(&s.key[0], len(s.key))}) // valid until the next decision
	}
	s.descriptors = append(s.descriptors, limiter.Descriptor{Entries: s.catalogEntries, Cost: 1, CatalogOnly: true})
}

// Name returns the name that clients see of a limit, and the limit as it is configured.
func (b *ByRules) Name(a *limiter.Asked) (string, *stint.Limit) { return a.Rule.Name, a.Rule.Limit }

// OnFailure returns the failure policy of an Undecided request: the strictest of the rules that
// were to decide, and the rule that has it.
func (b *ByRules) OnFailure(s *Scratch) (rule.Failure, *rule.Rule) {
	for i := range s.Verdict.Asked {
		if r := s.Verdict.Asked[i].Rule; !r.Shadow && r.OnStoreFailure != rule.Allow {
			return r.OnStoreFailure, r
		}
	}
	return rule.Allow, nil
}
