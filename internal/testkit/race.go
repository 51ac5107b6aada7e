//go:build race

package testkit

// Race reports whether the race detector is on. With it code is five to twenty times slower, and a
// sync.Pool drops items at random, so that allocations cannot be counted.
const Race = true
