package audit

import (
	"slices"
	"strings"

	"stint"
	"stint/rule"
)

// The reasons why a change is neither looser nor stricter.
const (
	whyNoRules   = "a domain without rules limits nobody"
	whyCharged   = "a request that one limit denies now uses up the other limits as well"
	whyUncharged = "a request that one limit denies no longer uses up the other limits"
	whyReach     = "a request may reach different limits than before, or none"
	whyAnswers   = "as much passes as before; answers look different"
	whyMetrics   = "as much passes as before; metrics look different"
	whyNames     = "as much passes as before; answers and metrics show a different name"
	whyMore      = "more passes in the long run, less at once"
	whyLess      = "less passes in the long run, more at once"
	whyCounted   = "the same rate and the same burst, but counted differently"
	whyStatuses  = "some responses are charged that were not, others no longer are"
	whyNodes     = "the limit stays; how exactly the nodes agree on it changes, see --modes"
	whyMemory    = "the limit stays; how many keys a node holds in memory changes"
	whyPenalty   = "the limit stays; who goes on after it denied is kept away after other tries or for another time"
	whyShare     = "each node admits as much as before"
	whyDurable   = "as much passes as before; what a crash may lose changes"
	whyReplaces  = "different limits than before are dropped where this one applies"
	whyShadow    = "a limit in shadow mode denies nobody"
	whyUnlimited = "an unlimited rule denies nobody"
)

// other adds a change of the whole domain that is neither looser nor stricter.
func (c *comparison) other(at place, why, format string, args ...any) {
	c.note(Other, at, format, args...)
	c.changes[len(c.changes)-1].Why = why
}

// other adds a difference that is neither looser nor stricter.
func (d *difference) other(why, format string, args ...any) {
	d.add(Other, format, args...)
	d.because(Other, why)
}

// because adds the reason why the effect of a difference is Other; it ignores all other effects.
func (d *difference) because(effect Effect, why string) {
	if effect == Other && !slices.Contains(d.why, why) {
		d.why = append(d.why, why)
	}
}

// explain sets change.Why if one of its effects is Other.
func (d *difference) explain(change *Change) {
	if slices.Contains(change.Effects, Other) {
		change.Why = strings.Join(d.why, "; ")
	}
}

// whyHarmless returns why adding or removing a rule is neither looser nor stricter, or "" if it is.
func whyHarmless(r *rule.Rule) string {
	switch {
	case r.Limit.Algorithm() == stint.Unlimited:
		return whyUnlimited
	case r.Shadow:
		return whyShadow
	}
	return ""
}

// whyNumbers returns why changed numbers are neither looser nor stricter. rates is the new long-run
// rate divided by the old one; once is the same for the units allowed at one instant.
func whyNumbers(rates, once float64) string {
	switch {
	case rates > once:
		return whyMore
	case rates < once:
		return whyLess
	}
	return whyCounted
}

// Durable returns what becomes of the counts of a limit when durable is switched on or off.
func Durable(is bool) string {
	if is {
		return "durable: false -> true, and what was counted before is not protected: if a crash loses it, nothing notices that"
	}
	return "durable: true -> false, and a crash may lose takes that were answered, and nothing notices that; after a loss that was noticed before, the rule no longer follows on_store_failure"
}
