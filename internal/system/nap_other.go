//go:build !linux

package system

import "time"

// Nap does nothing: only Linux has exact sleeps that are worth a thread.
func Nap(time.Duration) {}
