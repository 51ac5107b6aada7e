//go:build !linux

package xtest

import "time"

// Pause sleeps for a while.
func Pause(d time.Duration) { time.Sleep(d) }
