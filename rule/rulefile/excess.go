package rulefile

import (
	"fmt"

	"stint"
	"stint/rule"
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

// excessOf returns the excess of a rule, refuses it in modes in which a request is charged while it
// waits, and warns that others than the gateway and the middleware drop it.
func (f *fileCompiler) excessOf(l *limit, d *descriptor, r *rule.Rule) *denial.Excess {
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
	who := "the gateway"
	if mode == denial.Wait {
		who += " and httplimit"
	}
	f.warn("excess-dropped", r.Line, r.Name, fmt.Sprintf("excess: %v is for %s; rls, /v1/check, /v1/auth and resp drop what is over", mode, who),
		"expect denials where this domain is asked in another way")
	return l.excess
}
