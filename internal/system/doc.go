// Package system contains what a process needs from its machine: a clock that never runs backwards
// (clock.go), a seed for fingerprints of keys (fingerprint.go), files that only one process at a
// time may use (file_lock.go), files that are replaced or set aside (replace_file.go, set_aside.go), bytes in
// files that a reader checks (blocks.go), a journal of records that are on disk when they are answered (journal.go),
// the files below folders (file_finder.go), and what a service manager such as systemd passes to it
// (activation.go) and wants to know of it (notify.go), and what an interrupt ends (interrupt.go).
package system
