package rule

import (
	"errors"
	"fmt"
	"time"

	"stint"
	"stint/internal/limits"
)

// Numbers replace numbers of a limit. Fields that are zero change nothing.
type Numbers struct {
	Requests uint32
	Per      time.Duration
	// Burst is the burst of a token_bucket or a leaky_bucket. If it is zero, a token_bucket whose burst
	// equals its requests keeps both equal.
	Burst uint32
	// Unlimited lets all requests pass. Then the other fields are zero.
	Unlimited bool
}

// NumbersError is the error of [Rule.With]: the rule cannot have these numbers.
type NumbersError struct {
	Field   string // requests, per, burst or unlimited
	Problem string
	Hint    string
}

// Error returns the field and the problem.
func (e *NumbersError) Error() string { return e.Field + ": " + e.Problem }

// With returns a copy of the rule with other numbers, whose Base is r. Everything else of the rule
// stays, and so does the key of its buckets: a key keeps its use. What follows from the numbers is
// computed again, such as the larger limit of `soft`, the cap of `elastic` and the share of a process
// while the store fails. The share of each process of a leased rule stays as it is, and the store has
// the rest; if the new numbers leave nothing for the store, the store decides alone.
//
// The error is a [*NumbersError].
func (r *Rule) With(n Numbers) (*Rule, error) {
	made := *r
	made.Base, made.Changed = r, true
	if n.Unlimited {
		made.Limit = unlimited
		made.Stored, made.Tally, made.Local, made.Answers, made.Elastic, made.Soft = made.Limit, nil, nil, nil, nil, 0
		made.Candidate = nil
		return &made, nil
	}
	spec, err := r.spec(n)
	if err != nil {
		return nil, err
	}
	if made.Limit, err = stint.NewLimit(spec); err != nil {
		return nil, numbersError(n, err)
	}
	if n.Per != 0 {
		made.Unit = ""
	}
	if made.Stored, err = Scaled(made.Limit, Whole+r.Soft); err != nil {
		return nil, numbersError(n, err)
	}
	if r.Elastic != nil {
		elastic := *r.Elastic
		if elastic.Cap, err = Scaled(made.Limit, elastic.Upto); err != nil {
			return nil, numbersError(n, err)
		}
		made.Elastic = &elastic
	}
	if r.Tally != nil {
		if made.Tally = limits.CountingDenied(made.Limit); made.Tally == nil {
			return nil, &NumbersError{"requests", "the rule counts as envoyproxy/ratelimit does, which needs one unit more", "write a smaller number"}
		}
	}
	if r.Penalty != nil && n.Per != 0 { // it counts denied tries in the period of the limit
		spec := r.Penalty.Spec()
		spec.Per = n.Per
		if made.Penalty, err = stint.NewLimit(spec); err != nil {
			return nil, numbersError(Numbers{Per: n.Per}, err)
		}
	}
	made.agree()
	if r.Candidate != nil { // one that cannot have these numbers keeps its own, as a rule does
		if tried, err := r.Candidate.With(n); err == nil {
			made.Candidate = tried
		}
	}
	return &made, nil
}

var unlimited = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})

// spec returns the limit with other numbers.
func (r *Rule) spec(n Numbers) (stint.Spec, error) {
	spec := r.Limit.Spec()
	if spec.Algorithm == stint.Unlimited {
		return spec, &NumbersError{"requests", "the rule is unlimited and has no algorithm", "give the rule itself a limit, and override it for those who shall be unlimited"}
	}
	if n.Per != 0 {
		if spec.Calendar != stint.NoPeriod {
			return spec, &NumbersError{"per", fmt.Sprintf("the rule counts by the calendar (%s, time_zone)", spec.Calendar), "leave it out, and change requests alone"}
		}
		spec.Per = n.Per
	}
	switch {
	case n.Burst != 0:
		spec.Burst = n.Burst
	case n.Requests != 0 && spec.Algorithm == stint.TokenBucket && spec.Burst == spec.Requests:
		spec.Burst = n.Requests
	}
	if n.Requests != 0 {
		spec.Requests = n.Requests
	}
	spec.RoundRate = true
	return spec, nil
}

// agree sets what nodes agree on for a copy with other numbers. Terms are shared with the rule itself
// where they are the same, since nodes find what they know of a rule by its terms.
func (r *Rule) agree() {
	terms := r.Base.Terms
	divided := terms != nil && terms.Own != nil
	if r.OnStoreFailure == Local {
		r.Local = LocalLimit(r.Limit, r.LocalShare, r.Nodes)
	}
	if terms == nil || !divided && r.Mode() == terms.Coordination {
		return
	}
	own := *terms
	own.Limit, own.Coordination, own.Own, own.Rest = r.Stored, r.Mode(), nil, nil
	if divided && own.Coordination == Leased {
		if _, rest := limits.Divide(r.Stored, r.Base.Terms.Own, r.Nodes); rest != nil {
			own.Own, own.Rest, r.Local = terms.Own, rest, terms.Own
		}
	}
	r.Terms = &own
}

// Scaled returns a limit with requests and burst multiplied by a ratio and rounded down.
func Scaled(l *stint.Limit, by Ratio) (*stint.Limit, error) {
	if by == Whole {
		return l, nil
	}
	spec := l.Spec()
	spec.Requests, spec.Burst = by.Of(spec.Requests), by.Of(spec.Burst)
	return stint.NewLimit(spec)
}

// numbersError explains why the limit cannot have these numbers.
func numbersError(n Numbers, err error) error {
	e := &NumbersError{Field: "requests", Problem: err.Error()}
	if n.Requests == 0 && n.Per != 0 {
		e.Field = "per"
	}
	if spec, ok := errors.AsType[*stint.SpecError](err); ok {
		e.Problem, e.Hint = spec.Problem, spec.Hint
		if spec.Field == "burst" || spec.Field == "per" || spec.Field == "requests" {
			e.Field = spec.Field
		} else {
			e.Problem = spec.Field + " of the rule does not fit: " + e.Problem
		}
	}
	return e
}
