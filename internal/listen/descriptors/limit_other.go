//go:build !unix

package descriptors

// Limit returns how many descriptors this process may have open; 0: no bound is known.
func Limit() int { return 0 }

// Chmod changes the mode of an open descriptor where the system can do so.
func Chmod(uintptr, uint32) {}
