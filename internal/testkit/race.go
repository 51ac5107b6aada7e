//go:build race

package testkit

// Race tells whether the race detector runs. Under it code is five to twenty times
// slower, and a sync.Pool forgets at random, so that allocations cannot be counted.
const Race = true
