package limiter

import (
	"stint"
	"stint/rule"
)

// Reason is why a request was denied: the code in answers of all protocols. "" means that it was
// allowed.
type Reason string

// The reasons, in the order in which the first that applies decides.
const (
	ReasonBanned      Reason = "banned"            // a ban, see Verdict.Ban
	ReasonDenied      Reason = "denied"            // a deny list
	ReasonNoPlan      Reason = "no_plan"           // the client has no plan, or one without limits for a rule
	ReasonUnmatched   Reason = "unmatched"         // no limit applies, see Options.DenyUnmatched
	ReasonPenalized   Reason = "penalized"         // a penalty: a client goes on after it was denied
	ReasonUnavailable Reason = "limit_unavailable" // a failure policy, as the store could not decide
	ReasonQueued      Reason = "queued"            // stored to be sent later
	ReasonExcessFull  Reason = "excess_full"       // no place in a line or a queue
	ReasonQuota       Reason = "quota_exceeded"    // a limit of the client's plan
	ReasonRateLimited Reason = "rate_limited"      // a limit
)

// Reason returns why the request was denied.
func (v *Verdict) Reason() Reason {
	return v.reason(&v.Decision, v.Rule, v.Unmatched, v.Penalized)
}

// ReasonOf returns why descriptor i was denied.
func (v *Verdict) ReasonOf(i int) Reason {
	r := &v.Results[i]
	return v.reason(&r.Decision, r.Rule, r.Unmatched, r.Penalized)
}

func (v *Verdict) reason(d *stint.Decision, r *rule.Rule, unmatched, penalized bool) Reason {
	switch {
	case d.Allowed:
		return ""
	case v.Ban != "":
		return ReasonBanned
	case v.Listed == NoPlan:
		return ReasonNoPlan
	case v.Listed != nil:
		return ReasonDenied
	case unmatched:
		return ReasonUnmatched
	case penalized:
		return ReasonPenalized
	case d.Degraded && v.unavailable(r):
		return ReasonUnavailable
	case v.ended != "":
		return v.ended
	case r != nil && r.Plan != nil:
		return ReasonQuota
	}
	return ReasonRateLimited
}

// unavailable reports whether a failure policy denied the limit of a rule since the store could not
// decide. A denial by this node's share of a limit is none.
func (v *Verdict) unavailable(r *rule.Rule) bool {
	for i := range v.Asked {
		if a := &v.Asked[i]; a.Rule == r && a.Degraded && !a.Allowed {
			return a.Rule == nil || a.Rule.Local == nil
		}
	}
	return false
}
