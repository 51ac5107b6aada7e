// Package rule holds the rules of a service in a table, and turns a request into the limits
// that apply to it.
//
// Package rulefile reads tables from files. Nothing here depends on a store, a clock, a server
// or a library that reads files:
//
//	table, err := rulefile.Load("rules/")
//	entries := []rule.Entry{{Key: "user", Value: "42"}}
//	rules := table.Domain("api").Match(entries)
//	key := rules[0].AppendKey(nil, entries)
//
// A [Table] never changes. A reload makes a new one and swaps it whole.
package rule
