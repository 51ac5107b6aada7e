//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package system

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openLock opens the file of a lock, and locks it.
func openLock(name string) (*os.File, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The previous holder may have removed the file after it was opened here.
		if isCurrentLock(name, f) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// lockFile locks an open file, without waiting.
func lockFile(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrHeld
		case !errors.Is(err, syscall.EINTR):
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

// isCurrentLock reports whether f is still the file of that name.
func isCurrentLock(name string, f *os.File) bool {
	there, err := os.Lstat(name)
	if err != nil {
		return false
	}
	ours, err := f.Stat()
	return err == nil && os.SameFile(there, ours)
}

// removeLock removes the file of a lock.
func removeLock(name string) error { return os.Remove(name) }
