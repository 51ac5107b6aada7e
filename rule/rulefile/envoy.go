package rulefile

import (
	"stint"
	"stint/internal/limits"
	"stint/rule"
)

// envoyWords are the words of envoyproxy/ratelimit. It looks for them in one list, wherever
// they stand, so files that it accepts may have some in places where they mean nothing.
var envoyWords = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode", "quota_mode",
	"name", "replaces", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
}

// tally returns what the store is asked for a limit that counts as envoyproxy/ratelimit
// does, see [Rule.Tally]; nil where the limit says something that only Stint knows.
func (l *limit) tally() *stint.Limit {
	if !l.tallies || l.elastic != nil || l.answers != nil || l.soft > 0 || l.coordination != rule.Strict {
		return nil
	}
	if _, said := l.said["overdraw"]; said {
		return nil
	}
	return limits.CountingDenied(l.limit)
}
