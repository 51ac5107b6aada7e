//go:build unix

package descriptors

import (
	"math"
	"syscall"
)

// Limit returns how many descriptors this process may have open; 0: no bound is known.
func Limit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}

// Chmod changes the mode of an open descriptor where the system can do so.
func Chmod(fd uintptr, mode uint32) {
	// Other systems than Linux cannot do it for a socket; its file is changed afterwards.
	_ = syscall.Fchmod(int(fd), mode)
}
