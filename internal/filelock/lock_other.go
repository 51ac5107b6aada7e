//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package filelock

import (
	"errors"
	"io/fs"
	"os"
)

// open knows no lock that ends with its process.
func open(name string) (*os.File, error) {
	return nil, &fs.PathError{Op: "lock", Path: name, Err: errors.ErrUnsupported}
}

// remove removes the name of a lock that is held.
func remove(name string) error { return os.Remove(name) }
