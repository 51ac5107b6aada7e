//go:build unix

package web

import (
	"math"
	"syscall"
)

// descriptorLimit returns how many descriptors this process may have open; 0: no bound is known.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}

// chmod changes the mode of an open descriptor where the system can do so.
func chmod(fd uintptr, mode uint32) {
	// Other systems than Linux cannot do it for a socket; its file is changed afterwards.
	_ = syscall.Fchmod(int(fd), mode)
}
