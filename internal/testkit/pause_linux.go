package testkit

import (
	"syscall"
	"time"
)

// Pause sleeps in the kernel, accurate to a tenth of a millisecond: a timer of the runtime may be a
// millisecond late in an idle process. It occupies a thread meanwhile.
func Pause(d time.Duration) {
	if d <= 0 {
		return
	}
	rest := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
		continue
	}
}
