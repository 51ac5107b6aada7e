// Package disk keeps the rules of a catalog in one file, so that they outlive the
// process.
//
// A change is on the disk once the call that made it has returned, and a change that was
// cut short, by a kill -9 or by a machine that lost its power, never happened: the file
// is a tree of pages of which none in use is ever written over (bbolt). Each rule carries
// a checksum, so that a disk that lies is noticed when the rules are read. One process at
// a time may use the file; it is locked while it is open.
package disk
