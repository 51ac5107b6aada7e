// Package system has what a process needs of its machine: a clock that never runs backwards
// (clock.go), a seed by which keys become fingerprints (fingerprint.go), files that one process
// at a time may use (file_lock.go), and the files below folders (file_finder.go).
package system
