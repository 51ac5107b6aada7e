package limiter

import (
	"context"
	"fmt"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/rule"
)

// Trial is what Decide would answer to a request now. Make one with [Limiter.Try]. Only one goroutine
// may use it at a time.
type Trial struct {
	// Verdict is the verdict of the limits, also where a ban or a list decides before them. The
	// decisions in Asked are those after the request.
	Verdict

	// Barred is the list that decides before any limit; nil: none. For a ban, Kind is what it was
	// found by, and Ends the time until its end, stint.Never for none.
	Barred *rule.Listed
	Kind   BanKind
	Ends   time.Duration
}

// Passes reports whether the request would pass.
func (t *Trial) Passes() bool {
	if t.Barred != nil {
		return t.Barred.Exempt
	}
	return t.Allowed
}

// Try fills in t with what Decide would answer to req, whose Op is stint.Ask. It decides nothing itself:
// foretell gets the takes and must set their results to those after the takes, without taking
// anything. No denied try is counted, and no observer gets it. A penalty that this request would
// start is not foreseen.
func (l *Limiter) Try(ctx context.Context, req *Request, t *Trial, foretell func(context.Context, *stint.Call) error) error {
	v := &t.Verdict
	v.reset(req)
	v.secret = l.secret
	domain := l.domain(req)
	t.bar(req, domain, l.records)
	if rules := l.rules(req); domain != nil || rules != nil {
		v.match(domain, rules, req, l)
	} else {
		for i := range v.Results {
			v.Results[i].Unmatched = true
		}
	}
	v.concludeUnmatched(req, l.denyUnmatched && !req.Matched)
	if len(v.call.Takes) > 0 {
		v.bindKeys()
		if err := foretell(ctx, &v.call); err != nil {
			return fmt.Errorf("looking at %d limits of domain %q: %w", len(v.call.Takes), v.Domain, err)
		}
		v.readResults()
	}
	if len(v.penalties) > 0 {
		v.waitForAll()
	}
	v.conclude()
	return nil
}

// Store returns the store that l decides by, for looks.
func (l *Limiter) Store() stint.Store { return l.store }

// bar finds the list that decides before any limit.
func (t *Trial) bar(req *Request, domain *rule.Domain, records Records) {
	v := &t.Verdict
	t.Barred, t.Kind, t.Ends = nil, "", 0
	if records != nil && v.lookUp(req, domain, records) || domain != nil && v.decideByList(domain, req) {
		t.Barred, t.Kind, t.Ends = v.Listed, v.Ban, v.RetryAfter
		v.Ban, v.Listed, v.Decision = "", nil, unmatched
		for i := range v.Results {
			v.Results[i] = Result{Decision: unmatched}
		}
	}
}

// Seen returns what a look shows of limit number i of Asked, if d is the decision of a peek at its key.
func (t *Trial) Seen(i int, d stint.Decision) stint.Decision {
	a := t.Asked[i]
	a.Cost, a.Decision = 0, d
	if a.tallied {
		limits.ApplyTally(&a.Decision, t.Take(i), a.Cost, false)
	}
	if a.Rule != nil && a.Rule.Soft > 0 && !a.Degraded {
		a.soften(false)
	}
	return a.Decision
}
