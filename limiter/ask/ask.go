// Package ask puts the requests of all protocols to their limits: to the rules of a
// domain, or to one limit without rules.
package ask

import (
	"context"
	"unsafe"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/rule"
)

// Outcome is what became of a question.
type Outcome uint8

const (
	// Decided is what the verdict then speaks of: whether the request may pass.
	Decided Outcome = iota

	// Undecided says that the store could not decide; the policy of the limit answers.
	Undecided

	// Unasked says that no limit applies.
	Unasked

	// Unidentified says that nobody knows whose bucket it is.
	Unidentified

	// Misstated says that the request names a cost that is none, or a path that servers may
	// take for too many others.
	Misstated
)

// of returns what became of a question to the store.
func of(err error) (Outcome, error) {
	if err != nil {
		return Undecided, err
	}
	return Decided, nil
}

// Scratch is the memory of one question. The zero Scratch is ready, and good for the
// next question when the verdict is not needed any more, or settled. It belongs to one
// goroutine at a time.
type Scratch struct {
	// Verdict is the answer. Unless the outcome is Decided it means nothing, but lists
	// what was asked where that is Undecided.
	Verdict limiter.Verdict

	described   []rule.Descriptor
	descriptors []limiter.Descriptor
	own         []rule.Entry // by which a catalog is asked
	key         []byte
	request     limiter.Request
}

// Forget lets go of the request, and keeps the memory.
func (s *Scratch) Forget() { s.request = limiter.Request{} }

// Rules asks the limits of a domain. It is immutable.
type Rules struct {
	Limiter *limiter.Limiter
	Domain  string
}

// Ask decides a request into s.Verdict. The domain's http.rate_limits turn it into
// descriptors, each at its cost. answers says that its answer will be told to
// Limiter.Settle.
//
// Where the catalog has rules of the domain, it is asked by one descriptor more, so that
// they hold whatever the rule file says: method, path, and the user and the plan of the
// first descriptor that has them. In a domain without http.rate_limits the user is the
// client's address, an IPv6 one by its /64. It costs one unit.
func (b *Rules) Ask(ctx context.Context, a rule.Attributes, answers bool, s *Scratch) (Outcome, error) {
	table := b.Limiter.Table()
	var domain *rule.Domain
	if table != nil {
		domain = table.Domain(b.Domain)
	}
	rules := b.Limiter.Catalog()
	cataloged := rules != nil && rules.Has(b.Domain)
	if domain == nil && !cataloged {
		return b.nothing(ctx, nil, s)
	}
	s.described = s.described[:0]
	if domain != nil {
		var err error
		if s.described, err = domain.Describe(s.described, a); err != nil {
			return Misstated, err
		}
	}
	s.descriptors = s.descriptors[:0]
	for _, d := range s.described {
		s.descriptors = append(s.descriptors, limiter.Descriptor{Entries: d.Entries, Cost: d.Cost})
	}
	if cataloged {
		s.describe(a, domain == nil || !domain.HasHTTP())
	}
	if len(s.descriptors) == 0 && len(domain.Lists()) == 0 {
		return b.nothing(ctx, table, s)
	}
	s.request = limiter.Request{
		Domain: b.Domain, Descriptors: s.descriptors, Attributes: a, Table: table, Answers: answers,
	}
	return of(b.Limiter.Decide(ctx, &s.request, &s.Verdict))
}

// nothing answers a request that no limit can apply to: it passes unless such requests are
// denied.
func (b *Rules) nothing(ctx context.Context, table *rule.Table, s *Scratch) (Outcome, error) {
	if !b.Limiter.DeniesUnmatched() {
		if !b.Known() {
			b.Limiter.Missing(b.Domain)
		}
		return Unasked, nil
	}
	s.request = limiter.Request{Domain: b.Domain, Table: table}
	return of(b.Limiter.Decide(ctx, &s.request, &s.Verdict))
}

// Known says whether the domain has any rules. One without limits nothing, so a name that
// is written wrong is silent.
func (b *Rules) Known() bool {
	table, rules := b.Limiter.Table(), b.Limiter.Catalog()
	return table != nil && table.Domain(b.Domain) != nil || rules != nil && rules.Has(b.Domain)
}

// describe adds the descriptor by which a catalog is asked.
func (s *Scratch) describe(a rule.Attributes, byAddress bool) {
	s.own = append(s.own[:0], rule.Entry{Key: "method", Value: a.Method()}, rule.Entry{Key: "path", Value: a.Path()})
	for i := range s.described {
		for _, e := range s.described[i].Entries {
			if e.Key == "user" || e.Key == "plan" {
				s.own = append(s.own, e) // the first one counts
			}
		}
	}
	if client := web.GroupAddr(a.RemoteAddress(), 0); byAddress && client.IsValid() {
		s.key = client.AppendTo(s.key[:0])
		s.own = append(s.own, rule.Entry{Key: "user", Value: unsafe.String(&s.key[0], len(s.key))}) // until the next question
	}
	s.descriptors = append(s.descriptors, limiter.Descriptor{Entries: s.own, Cost: 1, CatalogOnly: true})
}

// Name returns how users call a limit that was asked, and its plain numbers.
func (b *Rules) Name(a *limiter.Asked) (string, *stint.Limit) { return a.Rule.Name, a.Rule.Limit }

// OnFailure returns the policy that answers where the outcome is Undecided, the
// strictest of the rules that were to be asked, and the rule that has it.
func (b *Rules) OnFailure(s *Scratch) (rule.Failure, *rule.Rule) {
	for i := range s.Verdict.Asked {
		if r := s.Verdict.Asked[i].Rule; !r.Shadow && r.OnStoreFailure != rule.Allow {
			return r.OnStoreFailure, r
		}
	}
	return rule.Allow, nil
}
