package rulefile

import (
	"fmt"
	"slices"
	"strings"

	"stint"
	"stint/internal/strictyaml"
	"stint/rule"
)

// This file checks what the words of a rate_limit mean together.

// readUnlimited makes the limit of a rule with `unlimited: true`.
func (l *limit) readUnlimited() bool {
	ok := true
	for _, word := range sortedKeys(l.said) {
		switch word {
		case "unlimited", "name", "replaces", "headers", "on_store_failure", "local_share", "nodes", "coordination", "after_loss", "cache", "gossip":
		case "requests_per_unit":
			// Envoy's service ignores it, so existing files may have it.
			l.ignored = "requests_per_unit beside unlimited: true means nothing"
		case "unit":
			if l.loose {
				l.letPass = append(l.letPass, [2]string{"unit beside unlimited: true means nothing", "leave it out: an unlimited rule has no period"})
				continue
			}
			fallthrough
		default:
			l.said[word].Fail(fmt.Sprintf("%s stands beside unlimited: true", word), "leave one of the two out")
			ok = false
		}
	}
	l.limit = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	l.stored = l.limit
	return ok
}

// readPeriod combines unit, per and time_zone. known: all words of the limit are known, so a
// missing word is not a misspelt one.
func (l *limit) readPeriod(known bool) {
	per, saysPer := l.said["per"]
	unit, saysUnit := l.said["unit"]
	if l.noUnit != nil {
		l.noUnit()
	}
	switch {
	case saysPer && saysUnit:
		l.fail(later(per, unit), "per and unit both say the period", "keep one of the two")
	case !saysPer && !saysUnit && known:
		l.fail(l.at, "a rate_limit without a period", "add unit: minute, or per: with any length, such as per: 15m")
	case saysUnit:
		if u, ok := rule.ParseUnit(l.unit); ok {
			l.spec.Per = u.Per
		}
	}
	anchor, saysAnchor := l.said["anchor"]
	zone, saysZone := l.said["time_zone"]
	if saysAnchor && (!saysZone || l.calendar != stint.Month) {
		l.fail(anchor, "anchor is set without a month of the calendar", "use it with unit: month and time_zone")
	}
	if !saysZone || l.zone == nil {
		return
	}
	if l.calendar == stint.NoPeriod {
		l.fail(zone, "time_zone is set without a calendar period", "use it with unit: day, week, month or year")
		return
	}
	l.spec.Calendar, l.spec.Zone, l.spec.Per = l.calendar, l.zone, 0
}

// readRequests combines the two words for the number of requests.
func (l *limit) readRequests(known bool) {
	ours, saysOurs := l.said["requests"]
	envoys, saysEnvoys := l.said["requests_per_unit"]
	switch {
	case l.loose && !saysOurs && (!saysEnvoys || envoys.IsNull()):
		l.letPass = append(l.letPass, [2]string{"a rate_limit without requests_per_unit denies everything", "add requests_per_unit: and how many may pass; unlimited: true lets all pass"})
	case saysOurs && saysEnvoys:
		l.fail(later(ours, envoys), "requests and requests_per_unit both say how many", "keep one of the two")
	case !saysOurs && !saysEnvoys && known:
		word := "requests"
		if l.unit != "" {
			word = "requests_per_unit"
		}
		l.fail(l.at, "a rate_limit without a number of requests", fmt.Sprintf("add %s: and how many may pass; 0 denies all, unlimited: true lets all pass", word))
	}
}

// wordsOf lists the algorithms that a word belongs to.
var wordsOf = map[string][]stint.Algorithm{
	"burst":        {stint.TokenBucket, stint.LeakyBucket},
	"refill":       {stint.TokenBucket},
	"max_wait":     {stint.LeakyBucket},
	"align":        {stint.FixedWindow},
	"anchor":       {stint.FixedWindow},
	"blocks":       {stint.SlidingWindow},
	"start":        {stint.SlidingWindow},
	"min_interval": {stint.SlidingLog},
	"count_denied": {stint.SlidingLog},
	"usage":        {stint.FixedWindow},
	"notify":       {stint.FixedWindow},
	"rollover":     {stint.FixedWindow},
	"elastic":      {stint.FixedWindow, stint.TokenBucket, stint.SlidingLog, stint.SlidingWindow},
	"soft":         {stint.FixedWindow, stint.TokenBucket, stint.SlidingLog, stint.SlidingWindow},
}

// readBelonging reports words that do not belong to the algorithm, even with their default value,
// and a bucket of size 0.
func (l *limit) readBelonging() {
	if burst, ok := l.said["burst"]; ok && l.spec.Algorithm == stint.TokenBucket && burst.IsInt() && l.spec.Burst == 0 {
		l.fail(burst, "burst: a token_bucket of capacity 0 lets nothing pass", "write 1 or more; where burst is left out it is the number of requests")
	}
	_, saysAlgorithm := l.said["algorithm"]
	if l.unknown {
		return
	}
	for _, word := range sortedKeys(wordsOf) {
		v, ok := l.said[word]
		if !ok || slices.Contains(wordsOf[word], l.spec.Algorithm) {
			continue
		}
		hint := "leave it out or change the algorithm"
		if !saysAlgorithm {
			hint = "a limit that names no algorithm is a fixed_window"
		}
		l.fail(v, fmt.Sprintf("%s: not a word of %s", word, l.spec.Algorithm),
			fmt.Sprintf("it belongs to algorithm: %s; %s", oneOf(wordsOf[word]), hint))
	}
}

func oneOf(list []stint.Algorithm) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.String()
	}
	return strings.Join(words, " or ")
}

// later returns the value that is further down in the file.
func later(a, b strictyaml.Value) strictyaml.Value {
	if a.Line() > b.Line() {
		return a
	}
	return b
}
