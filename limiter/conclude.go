package limiter

import "stint"

// conclude combines the decisions of the limits into those of the descriptors and of the whole
// call.
func (v *Verdict) conclude() {
	from := 0
	for i := range v.Results {
		to := from
		for to < len(v.Asked) && v.Asked[to].Descriptor == i {
			to++
		}
		switch to - from {
		case 0:
		case 1:
			a := &v.Asked[from]
			v.Results[i].Rule, v.Results[i].Decision, v.Results[i].Penalized = a.Rule, a.shown(), a.Penalized && !a.shadow()
		default:
			v.some, v.which = v.some[:0], v.which[:0]
			penalized := v.penalized(v.Asked[from:to])
			for j := from; j < to; j++ {
				if a := &v.Asked[j]; a.Penalized && !a.shadow() || !penalized {
					v.gather(a)
				}
			}
			d, n := stint.Combine(v.some)
			v.Results[i] = Result{Rule: v.which[n], Decision: d, Penalized: penalized}
		}
		from = to
	}
	v.answerPools()
	v.answerShared()
	quotas, spent := v.quotas()
	v.some, v.which = v.some[:0], v.which[:0]
	v.Penalized = v.penalized(v.Asked)
	for i := range v.Asked {
		a := &v.Asked[i]
		if v.Penalized && !a.Penalized {
			continue // a penalty decides before limits
		}
		if !a.shadow() && (a.Allowed || spent == quotas || !v.isQuota(a)) {
			v.gather(a)
		}
	}
	if d, n := stint.Combine(v.some); n >= 0 {
		v.Decision, v.Rule = d, v.which[n]
	}
}

// penalized reports whether the penalty of one of the limits denies, except in shadow mode.
func (v *Verdict) penalized(asked []Asked) bool {
	if len(v.penalties) == 0 {
		return false
	}
	for i := range asked {
		if a := &asked[i]; a.Penalized && !a.shadow() {
			return true
		}
	}
	return false
}

// gather adds the decision of a limit to v.some and v.which.
func (v *Verdict) gather(a *Asked) {
	v.some = append(v.some, a.shown())
	v.which = append(v.which, a.Rule)
}

// shadow reports whether the limit is in shadow mode and denies nobody.
func (a *Asked) shadow() bool { return a.Rule != nil && a.Rule.Shadow }

// shown returns the decision as the descriptor gets it: a shadow rule has its numbers but always
// allows, and bounds no cost.
func (a *Asked) shown() stint.Decision {
	d := a.Decision
	if a.shadow() {
		d.Allowed, d.Charged, d.RetryAfter, d.Delay = true, 0, 0, 0
	}
	return d
}

// isQuota reports whether the limit is in quota mode: it denies only together with all others in
// that mode.
func (v *Verdict) isQuota(a *Asked) bool { return v.quota || a.Rule != nil && a.Rule.Quota }

// quotas counts the limits in quota mode, and how many of them deny. Only all of them together deny
// a request. A limit in shadow mode never denies, and an unlimited one does not count.
func (v *Verdict) quotas() (all, denying int) {
	for i := range v.Asked {
		a := &v.Asked[i]
		if !v.isQuota(a) || a.Rule != nil && a.Rule.Limit.Algorithm() == stint.Unlimited {
			continue
		}
		all++
		if !a.Allowed && !a.shadow() {
			denying++
		}
	}
	return all, denying
}
