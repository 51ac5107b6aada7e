// Package loadclient lets callers ask the nodes of a fleet over HTTP, and judges by their own
// record whether the limit held.
//
// What passes is counted where it arrives, at the callers, so that no node is believed.
package loadclient
