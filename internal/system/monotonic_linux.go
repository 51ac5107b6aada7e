package system

import (
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC.
const clockMonotonic = 1

// monotonic returns the microseconds of the clock with which systemd tells reloads apart; 0 if there
// is none.
func monotonic() int64 {
	var now syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0); err != 0 {
		return 0
	}
	return now.Nano() / int64(time.Microsecond)
}
