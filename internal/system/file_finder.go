package system

import (
	"os"
	"path/filepath"
	"strings"

	"stint/internal/text"
)

// FileFinder lists files. It lists a file once, by the first path to it, and follows links: a
// mounted Kubernetes volume, whose files are links into a hidden folder, is listed by its visible
// names. Only one goroutine may use it.
type FileFinder struct {
	// Hidden also lists names that begin with a dot, and the contents of such folders, after all
	// others of their folder. A path that the caller gives may be hidden in any case.
	Hidden bool

	// Keep reports whether to list a file of a folder, by its path; nil: all regular files. A path
	// that the caller gives is always listed.
	Keep func(path string) bool

	files  []string
	errors []*FileError
	seen   map[string]bool // real paths of files
	within map[string]bool // real paths of the folders being listed
	found  bool
}

// FileError is the error of a path that cannot be read.
type FileError struct {
	Path    string
	Problem string // for example "cannot find it: no such file or directory"
	Hint    string // what to do
	Err     error
}

// Error returns the path and the problem.
func (e *FileError) Error() string { return e.Path + ": " + e.Problem }

// Unwrap returns the error of the system.
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

// Find returns the files at a path and below it, in the order of their names, without those that an
// earlier call has returned. found reports whether there are any, also counting those. Find
// continues after errors, and returns all of them.
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

// add adds a file, or all files of a folder. named means that the caller gave the path.
func (f *FileFinder) add(path string, named bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil && named { // it may be a link to what has no path, such as /dev/fd/63 of a shell's <(command)
		if info, open := os.Stat(path); open == nil && !info.IsDir() {
			real, err = path, nil
		}
	}
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		if _, gone := os.Lstat(path); named || gone == nil { // otherwise it was removed since the folder was read
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

// folder adds the contents of a folder: visible names, then hidden ones.
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
