package limiter

import (
	"errors"

	"stint"
)

// AtMostError is the error of a request whose Op is stint.AskAtMost, if a limit that matches it must
// be charged the whole cost or nothing. Nothing was charged.
type AtMostError struct{ Problem string }

// Error returns the problem.
func (e *AtMostError) Error() string { return e.Problem }

// checkAtMost returns an error if the request asks for at most its cost, and one of its limits must be
// charged the whole cost or nothing.
func (v *Verdict) checkAtMost(req *Request) error {
	if req.Op != stint.AskAtMost {
		return nil
	}
	for i, n := range v.taken {
		t, name := &v.call.Takes[i], "the limit"
		if n >= 0 && v.Asked[n].Rule != nil {
			name = "rule " + v.Asked[n].Rule.Name
			if v.Asked[n].Rule.Elastic != nil {
				return &AtMostError{name + " is elastic, and its units come from two limits"}
			}
		}
		switch {
		case t.Op != stint.AskAtMost || !t.Limit.ForStores().Overdraws():
		case n >= 0 && v.Asked[n].tallied:
			return &AtMostError{name + " counts denied requests too, as envoyproxy/ratelimit does: it is charged the whole cost, whatever is left"}
		default:
			return &AtMostError{name + " overdraws: it is charged the whole cost, whatever is left"}
		}
	}
	return nil
}

// explainAtMost replaces the error of a store that refused a request for at most its cost by an
// AtMostError, and returns every other error unchanged.
func explainAtMost(req *Request, err error) error {
	if req.Op == stint.AskAtMost && errors.Is(err, stint.ErrMixedLimits) {
		return &AtMostError{"two descriptors take from the same key"}
	}
	return err
}

// concludeAtMost sets how many units a request for at most its cost was charged. If no limit applies
// to it, that is its whole cost.
func (v *Verdict) concludeAtMost(req *Request) {
	if req.Op != stint.AskAtMost || !v.Allowed {
		return
	}
	if v.Charged == 0 {
		v.Charged = stint.MaxCost
		for i := range req.Descriptors {
			v.Charged = min(v.Charged, req.Descriptors[i].Cost)
		}
	}
	for i := range v.Results {
		if d := &v.Results[i]; d.Allowed && d.Charged == 0 {
			d.Charged = v.Charged
		}
	}
}
