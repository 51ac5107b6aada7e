// Package hints explains how to correct words of rule files that are not allowed at their places.
package hints

import (
	"fmt"
	"strings"
)

// A hint explains how to correct a word that is not allowed at its place. For a word of another
// tool, the hint names the word of Stint with the same meaning. For a word of Stint, it names the
// places where the word belongs.

// places are the words of rule files and the places where they belong.
var places = map[string]string{
	"domain": "at the top of the file", "descriptors": "at the top of the file, or inside a descriptor",
	"http": "at the top of the file", "atomic": "at the top of the file, beside domain",
	"exempt": "at the top of the file, beside domain", "deny": "at the top of the file, beside domain",
	"cidrs": "inside exempt and deny", "values": "inside exempt and deny",
	"rate_limits": "inside http", "actions": "inside http.rate_limits", "cost": "inside http.rate_limits, beside actions", "hits_addend": "inside http.rate_limits, beside actions",
	"key": "inside a descriptor", "value": "inside a descriptor", "rate_limit": "inside a descriptor",
	"shadow_mode": "inside a descriptor, beside rate_limit", "quota_mode": "inside a descriptor, beside rate_limit",
	"share_threshold": "inside a descriptor, beside value", "value_to_metric": "inside a descriptor, beside key", "show": "inside a descriptor, beside key",
	"detailed_metric": "inside a descriptor, beside rate_limit", "metadata": "inside a descriptor, beside rate_limit",
	"unit": "inside rate_limit", "per": "inside rate_limit", "requests_per_unit": "inside rate_limit",
	"requests": "inside rate_limit", "algorithm": "inside rate_limit", "burst": "inside rate_limit",
	"refill": "inside rate_limit", "align": "inside rate_limit", "blocks": "inside rate_limit", "start": "inside rate_limit",
	"min_interval": "inside rate_limit", "max_wait": "inside rate_limit", "count_denied": "inside rate_limit",
	"count": "inside rate_limit", "statuses": "inside rate_limit", "elastic": "inside rate_limit",
	"denial": "inside rate_limit", "excess": "inside rate_limit", "places": "inside excess", "places_per_key": "inside excess", "overdraw": "inside rate_limit", "soft": "inside rate_limit", "candidate": "inside rate_limit", "penalty": "inside rate_limit", "usage": "inside rate_limit", "notify": "inside rate_limit", "durable": "inside rate_limit", "rollover": "inside a limit of a plan", "ladder": "inside penalty", "decay": "inside penalty", "jitter": "inside penalty", "shared": "inside penalty", "time_zone": "inside rate_limit", "anchor": "inside rate_limit", "plan": "inside rate_limit", "plans": "at the top of the file", "default_plan": "at the top of the file, beside plans", "unlimited": "inside rate_limit",
	"name": "inside rate_limit", "replaces": "inside rate_limit", "headers": "inside rate_limit", "shard_by": "inside rate_limit",
	"on_store_failure": "inside rate_limit, or beside domain", "coordination": "inside rate_limit, or beside domain",
	"after_loss": "beside coordination: leased", "cache": "beside coordination: eventual", "gossip": "beside coordination: gossip", "local_share": "beside on_store_failure: local", "nodes": "beside on_store_failure: local",
}

// foreignLimit are words of other tools for members of a rate_limit.
var foreignLimit = map[string]string{
	// nginx limit_req
	"rate":    "write requests: and per:, such as requests: 10 and per: 1s for nginx's 10r/s",
	"nodelay": "nginx's burst with nodelay is algorithm: token_bucket with burst one above nginx's; without nodelay it is leaky_bucket with the same burst",
	"delay":   "requests above the rate wait with algorithm: leaky_bucket, up to max_wait",
	"zone":    "the key of the descriptor selects the buckets; there are no named zones",
	// bucket4j
	"capacity": "write burst: with algorithm: token_bucket", "tokens": "write requests:, the units added in each per",
	"bandwidth": "write requests: and per:; write a list under rate_limit to combine several",
	"greedy":    "write refill: steady", "intervally": "write refill: step",
	"initial_tokens": "a bucket starts full; only a sliding_window can start used up, with start: used_up",
	// Kong
	"second": "write requests: N and unit: second", "minute": "write requests: N and unit: minute",
	"hour": "write requests: N and unit: hour", "day": "write requests: N and unit: day",
	"month": "write requests: N and unit: month", "year": "write requests: N and unit: year",
	"window_size": "write per:, the length of the window", "policy": "the store is a flag of the service (--store); write coordination: for how nodes agree",
	"fault_tolerant": "write on_store_failure: allow or deny", "limit_by": "the key of the descriptor selects the buckets",
	// gubernator, limitador, others
	"hits": "write requests:, how many may pass; the cost is part of a request", "duration": "write per:",
	"max_value": "write requests:", "seconds": "write per: with a unit, such as per: 60s", "limit": "write requests:", "max": "write requests:",
	"max_requests": "write requests:", "count_per": "write requests: and per:", "times": "write requests:", "points": "write requests:",
	"average": "write requests: and per: with algorithm: token_bucket", "requests_per_second": "write requests: N and unit: second",
	"requests_per_minute": "write requests: N and unit: minute", "requests_per_hour": "write requests: N and unit: hour",
	"request_per_unit": "write requests_per_unit, with an s", "requests_per": "write requests_per_unit, or requests and per",
	"period": "write per:", "window": "write per:, the length of the window", "interval": "write per:", "ttl": "write per:",
	"time_window": "write per:", "time": "write per:", "timeframe": "write per:", "fill_interval": "write per:",
	"tokens_per_fill": "write requests:, the units added in each per", "max_tokens": "write burst: with algorithm: token_bucket",
	"replenish_rate": "write requests: and per: with algorithm: token_bucket", "burst_capacity": "write burst: with algorithm: token_bucket",
	"type": "write algorithm:", "strategy": "write algorithm:", "kind": "write algorithm:", "unit_multiplier": "write per:, which takes any length",
	"timezone": "write time_zone:", "tz": "write time_zone:", "failure_mode_deny": "write on_store_failure: deny", "fail_open": "write on_store_failure: allow",
	"status_codes": "write count: responses and statuses:", "on_status": "write count: responses and statuses:",
	"count_failures": "write count: responses and statuses:", "failures_only": "write count: responses and statuses:",
	"borrow": "write elastic: {from: NAME, upto: 300%}", "burst_from": "write elastic: {from: NAME, upto: 300%}",
	"response": "write denial: {status: 503, json: '{}'}", "rejected_code": "write denial: {status: 503}",
	"queue": "write excess: queue, or excess: wait", "wait": "write excess: wait", "on_excess": "write excess: wait or excess: queue",
	"candidates": "write candidate:, which tries other numbers of the limit", "try": "write candidate:", "trial": "write candidate:",
	"thresholds": "write notify: [80%, 100%]", "alert": "write notify: [80%, 100%]", "alerts": "write notify: [80%, 100%]", "history": "write usage: N, the number of periods to keep",
	"enabled": "remove the limit to switch it off, or write shadow_mode: true on the descriptor", "dry_run": "write shadow_mode: true on the descriptor",
}

// foreignDescriptor are words of other tools for members of a descriptor.
var foreignDescriptor = map[string]string{
	"limit": "write rate_limit:", "limits": "write rate_limit:, which may be a list", "ratelimit": "write rate_limit:",
	"rate_limits": "write rate_limit:, which may be a list", "children": "write descriptors:", "descriptor": "write descriptors:",
	"entries": "a descriptor of a rule file has one key; nest the next entries under descriptors:", "match": "write value:; * matches any text",
	"dry_run": "write shadow_mode: true", "shadow": "write shadow_mode: true", "values": "write one descriptor for each value, or a pattern such as \"a*\"",
}

// foreignTop are words of other tools for members at the top of a file.
var foreignTop = map[string]string{
	"rate_limits": "write http: rate_limits: for how a request becomes descriptors", "limits": "write descriptors:, and rate_limit inside each",
	"rules": "write descriptors:", "namespace": "write domain:", "name": "write domain:", "actions": "write http: rate_limits: and a list of actions",
	"tests": "write rule tests in a separate file whose name ends in _test.yaml", "domains": "a file has one domain; write domain: NAME",
	"allowlist": "write exempt:", "allow": "write exempt:", "whitelist": "write exempt:", "skip": "write exempt:", "bypass": "write exempt:",
	"denylist": "write deny:", "blacklist": "write deny:", "blocklist": "write deny:", "block": "write deny:", "banned": "write deny:",
	"version": "a rule file has no version; remove it", "api_version": "this looks like a Kubernetes object; give Stint the rule file inside it",
}

// Top returns the hint for an unknown word at the top of a file; "" if there is none.
func Top(word string) string { return hintFor(word, foreignTop) }

// Descriptor returns the hint for an unknown word inside a descriptor.
func Descriptor(word string) string { return hintFor(word, foreignDescriptor) }

// Limit returns the hint for an unknown word inside a rate_limit.
func Limit(word string) string {
	if word == "plan" {
		return "a limit of a plan, and a limit beside other numbers, has no plan; write {plan: NAME} in the rate_limit of a descriptor"
	}
	return hintFor(word, foreignLimit)
}

// BesidePlan returns the hint for a word that may not stand beside `plan:`.
func BesidePlan(word string) string {
	if strings.Contains(places[word], "inside rate_limit") {
		return "numbers stand in the plans; write the word there, in the limits that the rule takes"
	}
	return Limit(word)
}

// Candidate returns the hint for a word that is not one of a candidate.
func Candidate(word string) string {
	if places[word] != "" {
		return "a candidate has numbers and an algorithm alone; everything else is as in its limit"
	}
	return Limit(word)
}

// Elsewhere returns the hint for an unknown word at any other place.
func Elsewhere(word string) string { return hintFor(word, nil) }

// hintFor returns the hint for a word from foreign, or else from places.
func hintFor(word string, foreign map[string]string) string {
	plain := snake(word)
	switch {
	case foreign[plain] != "":
		return foreign[plain]
	case places[word] != "":
		return fmt.Sprintf("%s belongs %s", word, places[word])
	}
	return ""
}

// snake converts a word to the style of rule files: maxValue and max-value to max_value.
func snake(word string) string {
	var b strings.Builder
	for i, r := range word {
		switch {
		case r == '-' || r == ' ' || r == '.':
			b.WriteByte('_')
		case r >= 'A' && r <= 'Z' && i > 0 && word[i-1] >= 'a' && word[i-1] <= 'z':
			b.WriteByte('_')
			b.WriteRune(r + 'a' - 'A')
		case r >= 'A' && r <= 'Z':
			b.WriteRune(r + 'a' - 'A')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
