package ruletest

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
)

// Run runs tests against a table, each with its own store. The error is a [*rule.Errors] with every
// failed test, at its first failed step.
func Run(ctx context.Context, table *rule.Table, tests []*Test) error {
	var failed rule.Errors
	for _, t := range tests {
		r := ruleTest{test: t, table: table, limiter: limiter.New(memory.New(memory.Options{Budget: testBudget}), table, limiter.Options{})}
		if fault := r.run(ctx); fault != nil {
			failed.List = append(failed.List, fault)
		}
	}
	if len(failed.List) == 0 {
		return nil
	}
	return &failed
}

// testBudget is the memory of one test, which uses a few keys.
const testBudget = 16 << 20

// ruleTest is a running test.
type ruleTest struct {
	test    *Test
	table   *rule.Table
	limiter *limiter.Limiter
	request limiter.Request
	verdict limiter.Verdict
}

func (r *ruleTest) run(ctx context.Context) *rule.Error {
	domain := r.table.Domain(r.test.Domain)
	if domain == nil {
		return r.fault(r.test.Line, fmt.Sprintf("no rules for domain %q", r.test.Domain), "check the file of its rules together with the test")
	}
	for i := range r.test.Steps {
		if fault := r.step(ctx, domain, &r.test.Steps[i]); fault != nil {
			return fault
		}
	}
	return nil
}

func (r *ruleTest) fault(line int, problem, hint string) *rule.Error {
	return &rule.Error{File: r.test.File, Line: line, Problem: fmt.Sprintf("test %q: %s", r.test.Name, problem), Hint: hint}
}

// step sends one request Times times and compares the decisions.
func (r *ruleTest) step(ctx context.Context, domain *rule.Domain, s *Step) *rule.Error {
	descriptors := s.Descriptors
	if s.Request != nil {
		if !domain.HasHTTP() && len(domain.Lists()) == 0 {
			return r.fault(s.Line, fmt.Sprintf("domain %q does not say how a request becomes descriptors", domain.Name()),
				"give the domain an http section, or ask with descriptors")
		}
		var err error
		if descriptors, err = domain.Describe(nil, client{s.Request}, rule.AnyPhase); err != nil {
			return r.fault(s.Line, err.Error(), "such a request is answered 400; correct what the step sends")
		}
	}
	r.request = limiter.Request{Domain: domain.Name(), At: r.test.Start.Add(s.At), Answers: s.Answer != 0}
	if s.Request != nil {
		r.request.Attributes = s.Request
	}
	for _, d := range descriptors {
		cost := d.Cost
		if s.Cost != nil {
			cost = *s.Cost
		}
		r.request.Descriptors = append(r.request.Descriptors, limiter.Descriptor{Entries: d.Entries, Cost: cost})
	}
	for n := uint32(1); n <= s.Times; n++ {
		if err := r.limiter.Decide(ctx, &r.request, &r.verdict); err != nil {
			return r.fault(s.Line, err.Error(), "lower the cost, or give the test a later start")
		}
		if r.verdict.Allowed != s.Allow {
			which := ""
			if s.Times > 1 {
				which = fmt.Sprintf("call %d of %d is ", n, s.Times)
			}
			return r.fault(s.Line, fmt.Sprintf("%s%s, expected %s", which, word(r.verdict.Allowed), word(s.Allow)), r.answer())
		}
		if err := r.limiter.Settle(ctx, &r.verdict, s.Answer); err != nil {
			return r.fault(s.Line, err.Error(), "give the test a later start")
		}
	}
	return r.compare(s)
}

// compare compares the last decision with the step.
func (r *ruleTest) compare(s *Step) *rule.Error {
	v := &r.verdict
	switch {
	case s.Rule != nil && *s.Rule != r.ruleName():
		return r.fault(s.Line, fmt.Sprintf("rule %q spoke, expected %q", r.ruleName(), *s.Rule), r.answer())
	case s.Remaining != nil && *s.Remaining != v.Remaining:
		return r.fault(s.Line, fmt.Sprintf("remaining %s, expected %d", units(v.Remaining), *s.Remaining), r.answer())
	case s.Over != nil && *s.Over != v.Over:
		return r.fault(s.Line, fmt.Sprintf("over is %t, expected %t", v.Over, *s.Over), r.answer())
	case s.RetryAfter != nil && !near(v.RetryAfter, *s.RetryAfter):
		return r.fault(s.Line, fmt.Sprintf("retry_after %s, expected %s", span(v.RetryAfter), span(*s.RetryAfter)), r.answer())
	}
	return nil
}

// near allows for the error of rounding to microseconds.
func near(got, want time.Duration) bool {
	return got == want || got > want && got-want <= time.Millisecond
}

func (r *ruleTest) ruleName() string {
	if r.verdict.Listed != nil {
		return r.verdict.Listed.Name
	}
	if r.verdict.Rule == nil {
		return ""
	}
	return r.verdict.Rule.Name
}

// answer describes the last decision, for a hint.
func (r *ruleTest) answer() string {
	v := &r.verdict
	if l := v.Listed; l != nil {
		return fmt.Sprintf("the list %s (%s:%d) answered", l.Name, l.File, l.Line)
	}
	if v.Rule == nil {
		return fmt.Sprintf("no rule matched %s", describe(r.request.Descriptors))
	}
	text := fmt.Sprintf("rule %s (%s:%d) answered for %s: limit %s, remaining %s",
		v.Rule.Name, v.Rule.File, v.Rule.Line, describe(r.request.Descriptors), units(v.Limit), units(v.Remaining))
	if !v.Allowed {
		text += ", retry after " + span(v.RetryAfter)
	}
	return text
}

func describe(descriptors []limiter.Descriptor) string {
	if len(descriptors) == 0 {
		return "a request without descriptors"
	}
	texts := make([]string, 0, len(descriptors))
	for _, d := range descriptors {
		entries := make([]string, 0, len(d.Entries))
		for _, e := range d.Entries {
			entries = append(entries, e.Key+"="+e.Value)
		}
		texts = append(texts, strings.Join(entries, ", "))
	}
	return strings.Join(texts, " and ")
}

func word(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

func units(n int64) string {
	if n == stint.NoLimit {
		return "none"
	}
	return fmt.Sprint(n)
}

func span(d time.Duration) string {
	if d == stint.Never {
		return "never"
	}
	return d.String()
}

// client is a request of a test, with its address as the middleware sees it.
type client struct{ *Request }

// RemoteAddress returns the address that stands for all addresses of the client.
func (c client) RemoteAddress() netip.Addr { return web.GroupAddr(c.Request.RemoteAddress(), 0) }
