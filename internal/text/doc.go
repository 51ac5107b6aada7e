// Package text reads and writes small pieces of text: durations of rule files (duration.go),
// patterns with a star (glob.go), names of time zones (zones.go), and parts of error messages from
// elsewhere (error_text.go). It writes numbers and tables of reports (number.go, layout.go),
// and keeps formulas out of cells of CSV (formula.go).
// CheckNamespace checks the beginning of a store's keys (namespace.go). OutputBuffer keeps the output of a program for concurrent readers.
package text
