// Package rule turns rule files into a table, and a request into the limits that
// apply to it.
//
// A rule file is Envoy's rate limit service format (a domain, nested descriptors,
// rate_limit) with Stint's own words beside Envoy's; docs/rules.md lists them all.
// [Parse] and [Load] read any number of files, strictly: an unknown word, a word in
// the wrong place, a double rule or an impossible number refuses the whole set, and
// every fault is reported with its file, line and a hint. Nothing here knows a
// store, a clock or a server, so a file can be checked anywhere.
//
//	table, err := rule.Load("rules/")
//	rules := table.Domain("api").Match([]rule.Entry{{Key: "user", Value: "42"}})
//	key := rules[0].AppendKey(nil, entries)
//
// A [Table] never changes. A reload makes a new one and swaps it whole.
package rule
