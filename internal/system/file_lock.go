package system

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrHeld is the error of [TakeLock] where another holder has the lock.
var ErrHeld = errors.New("another process uses it")

// HeldError says who holds a lock.
type HeldError struct {
	// Process is the number of the process that holds the lock, as that process counts
	// processes; 0: unknown.
	Process int
}

// Error returns the holder.
func (e *HeldError) Error() string {
	if e.Process == 0 {
		return ErrHeld.Error()
	}
	return "process " + strconv.Itoa(e.Process) + " uses it"
}

// Is says that the error is [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// FileLock is the right to use a file. It ends with Release, and with the process that has it,
// however that ends.
type FileLock struct {
	name string
	file *os.File
}

// TakeLock locks a file that need not exist, by a second file beside it: name with ".lock". The
// second file holds the number of the process, and Release removes it. Take does not wait:
// its error is a [*HeldError] where somebody has the lock, this process too, and
// [errors.ErrUnsupported] where the system or the file system has no locks.
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

// Release gives the file free and removes the lock. It is called once.
func (l *FileLock) Release() error {
	// First the name: once the lock is open, the file may be that of the next holder.
	return errors.Join(removeLock(l.name), l.file.Close())
}

// sign writes the number of this process.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder returns the number that the holder wrote; 0: none can be read.
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

// mostLinks is how many links Target follows, as many as Linux does.
const mostLinks = 40

// LinkTarget returns the path that a name leads to when its links are followed, also where
// nothing is there yet. Who replaces a file by a rename renames to this path: a rename to
// the name of a link replaces the link.
func LinkTarget(name string) (string, error) {
	for range mostLinks {
		// Not cleaned: ".." behind a link leads elsewhere than its text says.
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
