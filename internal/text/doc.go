// Package text reads and writes small pieces of text: durations as rule files have them
// (duration.go), patterns with a star (glob.go), names of time zones (zones.go), and the
// parts of an error message that others wrote (error_text.go). OutputBuffer keeps what a program
// prints, for whoever reads it meanwhile.
package text
