package audit

import (
	"fmt"
	"math"
	"time"

	"stint"
	"stint/rule"
)

// loosest finds which of two limits of one bucket never denies.
func (a *auditor) loosest(first, second *rule.Rule) {
	switch {
	case a.within(first, second):
		a.neverDenies(second, first)
	case a.within(second, first):
		a.neverDenies(first, second)
	}
}

func (a *auditor) neverDenies(loose, tight *rule.Rule) {
	if a.loose[loose] {
		return
	}
	a.loose[loose] = true
	a.find("never-denies", ruleAt(loose), loose.Name, fmt.Sprintf("%s in %s always applies as well and denies before this limit does", tight.Name, ruleAt(tight).from(ruleAt(loose))),
		"make it tighter than the other, or remove it")
}

// within reports whether tight denies before loose does: every request that tight allows, loose
// allows too. Every take of loose must also be a take of tight, in the same bucket or in a wider
// one. It returns false when in doubt.
func (a *auditor) within(tight, loose *rule.Rule) bool {
	for _, r := range []*rule.Rule{tight, loose} {
		if r.Plan != nil || r.Shadow || r.Quota || r.Limit.Algorithm() == stint.Unlimited || r.Limit.Spec().Requests == 0 {
			return false
		}
	}
	if !a.domain.Atomic() || a.replaced[tight.Given] || a.pools[loose] || loose.Elastic != nil || loose.Soft > 0 || !sameAnswers(tight, loose) {
		return false
	}
	limit := tight.Stored
	if tight.Elastic != nil {
		limit = tight.Elastic.Cap
	}
	return passes(limit.Spec(), loose.Stored.Spec())
}

func sameAnswers(a, b *rule.Rule) bool {
	if a.Answers == nil || b.Answers == nil {
		return a.Answers == b.Answers
	}
	return *a.Answers == *b.Answers
}

// passes reports whether limit loose allows all that limit tight allows.
func passes(tight, loose stint.Spec) bool {
	if loose.CountDenied || loose.MinInterval > 0 || loose.StartUsedUp {
		return false // loose denies for other reasons
	}
	switch loose.Algorithm {
	case stint.FixedWindow:
		if tight.Algorithm == stint.FixedWindow && !tight.FromFirst && !loose.FromFirst {
			if n, ok := windowsIn(&tight, &loose); ok {
				return n*float64(tight.Requests) <= float64(loose.Requests)
			}
		}
		_, longest := lengths(&loose)
		return admits(&tight, longest) <= float64(loose.Requests)
	case stint.SlidingLog:
		return admits(&tight, loose.Per) <= float64(loose.Requests)
	case stint.SlidingWindow:
		return admits(&tight, 2*loose.Per) <= float64(loose.Requests) // its estimate may count requests up to twice Per old
	case stint.TokenBucket:
		return !loose.Step && atOnce(&tight) <= float64(loose.Burst) && rate(&tight) <= rate(&loose)
	}
	return false // leaky_bucket delays requests that it does not deny
}

// windowsIn returns how many windows of inner make one window of outer. It returns false if the
// windows do not start together.
func windowsIn(inner, outer *stint.Spec) (float64, bool) {
	if inner.Calendar != stint.NoPeriod || outer.Calendar != stint.NoPeriod {
		return 1, inner.Calendar == outer.Calendar && max(1, inner.Anchor) == max(1, outer.Anchor) && inner.Zone.String() == outer.Zone.String()
	}
	return float64(outer.Per / inner.Per), outer.Per%inner.Per == 0
}

const day = 24 * time.Hour

// lengths returns the shortest and the longest duration of the period of a limit.
func lengths(s *stint.Spec) (shortest, longest time.Duration) {
	switch s.Calendar {
	case stint.Day:
		return day - 2*time.Hour, day + 2*time.Hour
	case stint.Week:
		return 7*day - 2*time.Hour, 7*day + 2*time.Hour
	case stint.Month:
		return 28*day - 2*time.Hour, 31*day + 2*time.Hour
	case stint.Year:
		return 365*day - 2*time.Hour, 366*day + 2*time.Hour
	}
	return s.Per, s.Per
}

// admits returns the most units that a limit allows in any interval of length span.
func admits(s *stint.Spec, span time.Duration) float64 {
	per, _ := lengths(s)
	periods := float64(span) / float64(per)
	n := float64(s.Requests)
	switch s.Algorithm {
	case stint.TokenBucket:
		if s.Step {
			return float64(s.Burst) + n*math.Ceil(periods)
		}
		return float64(s.Burst) + math.Ceil(n*periods)
	case stint.LeakyBucket:
		return float64(s.Burst) + 1 + math.Ceil(n*periods)
	case stint.SlidingLog:
		return n * math.Ceil(periods)
	case stint.SlidingWindow:
		return 2 * n * math.Ceil(periods)
	}
	return n * (math.Ceil(periods) + 1)
}

// atOnce returns the most units that a limit allows at one instant.
func atOnce(s *stint.Spec) float64 { return admits(s, 1) }

// rate returns how many units per second a limit allows in the long run.
func rate(s *stint.Spec) float64 {
	per, _ := lengths(s)
	return float64(s.Requests) / per.Seconds()
}
