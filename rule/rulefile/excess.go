package rulefile

import (
	"fmt"

	"stint"
	"stint/rule/denial"
)

// checkExcess refuses an excess beside settings with which a denied request is charged, or waits
// already.
func (l *limit) checkExcess() {
	if l.excess == nil {
		return
	}
	v, mode := l.said["excess"], l.excess.Mode
	switch {
	case mode == denial.Wait && l.spec.Algorithm == stint.LeakyBucket:
		l.fail(v, "excess: wait beside leaky_bucket", "a leaky_bucket lets requests wait itself: burst says how many, max_wait how long; leave excess out, or choose another algorithm")
	case l.spec.CountDenied:
		l.fail(v, fmt.Sprintf("excess: %v beside count_denied", mode), "each try would be counted and keep the request away; leave one of the two out")
	case l.spec.Overdraw:
		l.fail(v, fmt.Sprintf("excess: %v beside overdraw", mode), "each try would be debited; leave one of the two out")
	}
}

// excessOf returns the excess of a rule, and refuses it in modes in which a request is charged while it
// waits.
func (f *fileCompiler) excessOf(l *limit, d *descriptor) *denial.Excess {
	if l.excess == nil {
		return nil
	}
	v, mode := l.said["excess"], l.excess.Mode
	switch {
	case d.quota:
		v.Fail(fmt.Sprintf("excess: %v beside quota_mode", mode), "limits in quota mode deny only together; leave one of the two out")
	case !f.domain.Atomic:
		v.Fail(fmt.Sprintf("excess: %v in a domain with atomic: false", mode), "there the other limits of a request are charged while it waits; leave atomic: false out")
	}
	return l.excess
}

// warnExcess warns that others than the gateway and the middleware, which read the http section, drop
// the excess of rules. That section is read by now.
func (f *fileCompiler) warnExcess() {
	id, hint := "excess-elsewhere", "expect denials where this domain is asked in another way"
	if len(f.domain.HTTP) == 0 && (f.first == nil || len(f.first.HTTP) == 0) {
		id, hint = "excess-dropped", "add http: and use httplimit or the gateway, or leave excess out"
	}
	for _, r := range f.rules {
		if r.Excess == nil {
			continue
		}
		who := "the gateway"
		if r.Excess.Mode == denial.Wait {
			who += " and httplimit"
		}
		f.warn(id, r.Line, r.Name, fmt.Sprintf("excess: %v is for %s; rls, /v1/check, /v1/auth and resp drop what is over", r.Excess.Mode, who), hint)
	}
}

// warnIdentity warns that only servers that authenticate clients know an identity.
func (f *fileCompiler) warnIdentity() {
	for _, h := range f.domain.HTTP {
		if h.Actions.ReadsIdentity() {
			f.warn("identity-elsewhere", h.Line, "", "identity is for the gateway and httplimit, behind authentication; /v1/auth, rls and gRPC identify nobody by it",
				"to limit users there, use another action, such as api_key or bearer_claim")
			return
		}
	}
}
