package system

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrHeld is the error of [TakeLock] if another process, or this one, has the lock.
var ErrHeld = errors.New("another process uses it")

// HeldError is ErrHeld with the process that has the lock.
type HeldError struct {
	// Process is the id of the process with the lock, in that process's own namespace; 0: unknown.
	Process int
}

// Error returns a text with the process.
func (e *HeldError) Error() string {
	if e.Process == 0 {
		return ErrHeld.Error()
	}
	return "process " + strconv.Itoa(e.Process) + " uses it"
}

// Is reports whether target is [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// FileLock is an exclusive lock on a file. It ends with Release, or when the process ends for any
// reason.
type FileLock struct {
	name string
	file *os.File
}

// TakeLock locks a file, which need not exist, with a second file next to it: name with ".lock".
// The second file contains the process id, and Release removes it. TakeLock does not wait. Its
// error is a [*HeldError] if any process, this one included, has the lock, and
// [errors.ErrUnsupported] if the system or the file system has no locks.
func TakeLock(name string) (*FileLock, error) {
	name += ".lock"
	f, err := openLock(name)
	switch {
	case errors.Is(err, ErrHeld):
		return nil, &HeldError{Process: holder(name)}
	case err != nil:
		return nil, err
	}
	if err := sign(f); err != nil {
		return nil, errors.Join(err, removeLock(name), f.Close())
	}
	return &FileLock{name, f}, nil
}

// Release removes the lock. It must be called only once.
func (l *FileLock) Release() error {
	// Remove the name first: once the lock is closed, the next process may have created its own
	// file.
	return errors.Join(removeLock(l.name), l.file.Close())
}

// sign writes the id of this process.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder returns the process id in a lock file; 0: it cannot be read.
func holder(name string) int {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return n
}

// mostLinks is the most links that LinkTarget follows, as on Linux.
const mostLinks = 40

// LinkTarget returns the path that name leads to after all links, even if nothing exists there yet.
// To replace a file by a rename, rename to this path: a rename to the name of a link replaces the
// link.
func LinkTarget(name string) (string, error) {
	for range mostLinks {
		// Not cleaned: ".." after a link leads elsewhere than its text suggests.
		folder, base := filepath.Split(name)
		if folder == "" {
			folder = "."
		}
		folder, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return "", err
		}
		name = filepath.Join(folder, base)
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		next, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(next) {
			next = folder + string(filepath.Separator) + next
		}
		name = next
	}
	return "", &fs.PathError{Op: "follow", Path: name, Err: errLinks}
}

var errLinks = errors.New("too many links")
