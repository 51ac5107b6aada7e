//go:build race

package httpapi

// Under the race detector, a sync.Pool drops elements at random, so allocations cannot be counted.
func init() { raceDetector = true }
