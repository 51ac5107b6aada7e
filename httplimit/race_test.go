//go:build race

package httplimit_test

// Under the race detector, a sync.Pool drops elements at random, so allocations cannot be counted.
func init() { raceDetector = true }
