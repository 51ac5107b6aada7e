//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package system

import (
	"errors"
	"io/fs"
	"os"
)

// openLock returns an error, because this system has no locks that end with the process.
func openLock(name string) (*os.File, error) {
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}

// removeLock removes the file of a lock.
func removeLock(name string) error { return os.Remove(name) }
