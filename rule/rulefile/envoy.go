package rulefile

import (
	"stint"
	"stint/internal/limits"
	"stint/rule"
)

// envoyWords are all words of envoyproxy/ratelimit. That program accepts each of them in any place,
// so files for it may have some in places where they have no meaning.
var envoyWords = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode", "quota_mode",
	"name", "replaces", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
}

// tally returns the limit for the store if this one counts as envoyproxy/ratelimit does, see
// [rule.Rule.Tally]; nil if the limit uses a word that only Stint has.
func (l *limit) tally() *stint.Limit {
	if !l.tallies || l.elastic != nil || l.answers != nil || l.soft > 0 || l.coordination != rule.Strict {
		return nil
	}
	if _, said := l.said["overdraw"]; said {
		return nil
	}
	return limits.CountingDenied(l.limit)
}
