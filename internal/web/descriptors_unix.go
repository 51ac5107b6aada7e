//go:build unix

package web

import (
	"math"
	"syscall"
)

// descriptorLimit returns how many descriptors this process may have open; 0: unknown.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}

// chmod changes the mode of an open descriptor, on systems that support it.
func chmod(fd uintptr, mode uint32) {
	// Only Linux supports it for a socket; elsewhere the mode of the file is changed later.
	_ = syscall.Fchmod(int(fd), mode)
}
