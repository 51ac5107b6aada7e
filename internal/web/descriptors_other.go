//go:build !unix

package web

// descriptorLimit returns how many descriptors this process may have open; 0: unknown.
func descriptorLimit() int { return 0 }

// chmod changes the mode of an open descriptor, on systems that support it.
func chmod(uintptr, uint32) {}
