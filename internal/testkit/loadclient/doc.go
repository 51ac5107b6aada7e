// Package loadclient sends requests to the nodes of a fleet over HTTP, and checks with the callers'
// own record whether the limit was kept.
//
// It counts allowed requests at the callers, and does not rely on the counts of nodes.
package loadclient
