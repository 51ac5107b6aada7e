//go:build unix

package load

import (
	"syscall"
	"time"
)

// processorTime returns the CPU time that this process has used.
func processorTime() (time.Duration, bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
