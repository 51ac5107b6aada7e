// Package system contains what a process needs from its machine: a clock that never runs backwards
// (clock.go), a seed for fingerprints of keys (fingerprint.go), files that only one process at a
// time may use (file_lock.go), and the files below folders (file_finder.go).
package system
