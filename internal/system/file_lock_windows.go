package system

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	sharingViolation = syscall.Errno(32)
	deleteOnClose    = 0x04000000 // FILE_FLAG_DELETE_ON_CLOSE
	mayDelete        = 0x00010000 // DELETE, which deleteOnClose needs
)

// openLock opens the file of a lock for this process alone, until it is closed or the process
// ends; then the system removes the file.
func openLock(name string) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(path, syscall.GENERIC_READ|syscall.GENERIC_WRITE|mayDelete, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL|deleteOnClose, 0)
	switch {
	case err == nil:
		return os.NewFile(uintptr(h), name), nil
	case errors.Is(err, sharingViolation):
		return nil, ErrHeld
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}

// removeLock does nothing; the system removes the file.
func removeLock(string) error { return nil }
