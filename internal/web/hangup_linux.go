package web

import (
	"syscall"
	"unsafe"
)

// The events of poll(2) for a connection that is closed.
const (
	pollErr   = 0x8
	pollHup   = 0x10
	pollRdHup = 0x2000
)

// pollFD is struct pollfd of poll(2).
type pollFD struct {
	fd              int32
	events, revents int16
}

// hungUp asks the system for the events of a descriptor, without waiting.
func hungUp(fd uintptr) bool {
	p, now := pollFD{fd: int32(fd), events: pollRdHup}, syscall.Timespec{}
	n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno == 0 && n == 1 && p.revents&(pollErr|pollHup|pollRdHup) != 0
}
