package system

import (
	"os"
	"path/filepath"
	"strings"

	"stint/internal/text"
)

// FileFinder lists files. What is reached twice is listed once, by the first way, and links
// are followed: a mounted Kubernetes volume, whose files are links into a hidden folder,
// is listed by its visible names. A Finder belongs to one goroutine.
type FileFinder struct {
	// Hidden lists names that begin with a dot, and what such folders hold, after all
	// others of their folder. A path that is given itself may be hidden in any case.
	Hidden bool

	// Keep says which files of a folder are listed, by their paths; nil: all that are
	// regular files. A path that is given itself is listed whatever it is.
	Keep func(path string) bool

	files  []string
	errors []*FileError
	seen   map[string]bool // real paths of files
	within map[string]bool // real paths of the folders that we are in
	found  bool
}

// FileError says which path cannot be read.
type FileError struct {
	Path    string
	Problem string // such as "cannot find it: no such file or directory"
	Hint    string // what to do
	Err     error
}

// Error returns the path and the problem.
func (e *FileError) Error() string { return e.Path + ": " + e.Problem }

// Unwrap returns what the system said.
func (e *FileError) Unwrap() error { return e.Err }

// ListFiles returns the files at paths and below them, see [FileFinder].
func ListFiles(paths []string, hidden bool) ([]string, error) {
	f := FileFinder{Hidden: hidden}
	var all []string
	for _, path := range paths {
		files, _, errs := f.Find(path)
		if len(errs) > 0 {
			return nil, errs[0]
		}
		all = append(all, files...)
	}
	return all, nil
}

// Find returns the files at a path and below it, in the order of their names, but for
// those that an earlier call has returned; found says whether there are any, those
// counted. It goes on where something cannot be read, and tells all of it.
func (f *FileFinder) Find(path string) (files []string, found bool, errs []*FileError) {
	if f.seen == nil {
		f.seen, f.within = map[string]bool{}, map[string]bool{}
	}
	f.files, f.errors, f.found = nil, nil, false
	f.add(path, true)
	return f.files, f.found, f.errors
}

func (f *FileFinder) fail(path, problem, hint string, err error) {
	f.errors = append(f.errors, &FileError{path, problem + ": " + text.Cause(err), hint, err})
}

// add adds a file, or all files of a folder. named says that the caller gave the path,
// rather than that a folder holds it.
func (f *FileFinder) add(path string, named bool) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		if _, gone := os.Lstat(path); named || gone == nil { // else it went since the folder was read
			f.fail(path, "cannot find it", "check the path and what links point to", err)
		}
		return
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		f.fail(path, "cannot read it", "check the permissions", err)
	case info.IsDir():
		if !f.within[real] {
			f.within[real] = true
			f.folder(path)
			delete(f.within, real)
		}
	case !named && (!info.Mode().IsRegular() || f.Keep != nil && !f.Keep(path)):
	case f.seen[real]:
		f.found = true
	default:
		f.found, f.seen[real] = true, true
		f.files = append(f.files, path)
	}
}

// folder adds what a folder holds: visible names, then hidden ones.
func (f *FileFinder) folder(path string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		f.fail(path, "cannot read the folder", "check the permissions", err)
		return
	}
	for _, hidden := range []bool{false, true} {
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") == hidden && (f.Hidden || !hidden) {
				f.add(filepath.Join(path, e.Name()), false)
			}
		}
	}
}
