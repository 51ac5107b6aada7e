//go:build race

package httpapi

// A sync.Pool forgets at random under the race detector, so allocations cannot be
// counted there.
func init() { raceDetector = true }
