//go:build !linux

package testkit

import "time"

// Pause sleeps for a while.
func Pause(d time.Duration) { time.Sleep(d) }
