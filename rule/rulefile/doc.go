// Package rulefile reads rule files into a table of package rule.
//
// A rule file is Envoy's rate limit service format (a domain, nested descriptors,
// rate_limit) with Stint's own words beside Envoy's; docs/rules.md lists them all.
// [Parse] and [Load] read any number of files, strictly: an unknown word, a word in
// the wrong place, a double rule or an impossible number refuses the whole set, and
// every fault is reported with its file, line and a hint. No store, clock or server is
// needed, so a file can be checked anywhere.
//
//	table, err := rulefile.Load("rules/")
//
// [KeySets] fetches the keys of signed tokens that files name by their address.
package rulefile
