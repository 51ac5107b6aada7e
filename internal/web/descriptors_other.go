//go:build !unix

package web

// descriptorLimit returns how many descriptors this process may have open; 0: no bound is known.
func descriptorLimit() int { return 0 }

// chmod changes the mode of an open descriptor where the system can do so.
func chmod(uintptr, uint32) {}
