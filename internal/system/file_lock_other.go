//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package system

import (
	"errors"
	"io/fs"
	"os"
)

// openLock knows no lock that ends with its process.
func openLock(name string) (*os.File, error) {
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}

// removeLock removes the name of a lock that is held.
func removeLock(name string) error { return os.Remove(name) }
