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
			v.Results[i].Rule, v.Results[i].Decision = a.Rule, a.shown()
		default:
			v.some, v.which = v.some[:0], v.which[:0]
			for j := from; j < to; j++ {
				v.gather(&v.Asked[j])
			}
			d, n := stint.Combine(v.some)
			v.Results[i] = Result{Rule: v.which[n], Decision: d}
		}
		from = to
	}
	v.answerPools()
	v.answerShared()
	quotas, spent := v.quotas()
	v.some, v.which = v.some[:0], v.which[:0]
	for i := range v.Asked {
		a := &v.Asked[i]
		if !a.shadow() && (a.Allowed || spent == quotas || !v.isQuota(a)) {
			v.gather(a)
		}
	}
	if d, n := stint.Combine(v.some); n >= 0 {
		v.Decision, v.Rule = d, v.which[n]
	}
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
