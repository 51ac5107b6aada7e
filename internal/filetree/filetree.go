// Package filetree lists the files below folders, whatever their names.
package filetree

import (
	"os"
	"path/filepath"
	"strings"
)

// List returns the files at paths and below them, in the order of their names, but those
// that begin with a dot last. Links are followed, and a file that is reached twice is
// listed once, by the first way: a mounted Kubernetes volume, whose files are links into
// a hidden folder, is listed by its visible names.
//
// Hidden names, which begin with a dot, are left out where hidden is false, and so is
// what they hold; a path that is given itself may be hidden.
func List(paths []string, hidden bool) ([]string, error) {
	l := &lister{hidden: hidden, seen: map[string]bool{}, within: map[string]bool{}}
	for _, path := range paths {
		if err := l.add(path); err != nil {
			return nil, err
		}
	}
	return l.files, nil
}

// lister collects files.
type lister struct {
	hidden bool
	files  []string
	seen   map[string]bool // real paths of files
	within map[string]bool // real paths of the folders that we are in
}

// add adds a file, or all files of a folder. What is neither is left out.
func (l *lister) add(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		if l.within[real] {
			return nil
		}
		l.within[real] = true
		defer delete(l.within, real)
		return l.folder(path)
	case info.Mode().IsRegular() && !l.seen[real]:
		l.seen[real] = true
		l.files = append(l.files, path)
	}
	return nil
}

// folder adds what a folder holds: visible names, then hidden ones.
func (l *lister) folder(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	each := func(hidden bool) error {
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") != hidden {
				continue
			}
			name := filepath.Join(path, e.Name())
			if err := l.add(name); err != nil {
				if _, gone := os.Lstat(name); gone != nil {
					continue // since the folder was read
				}
				return err
			}
		}
		return nil
	}
	if err := each(false); err != nil || !l.hidden {
		return err
	}
	return each(true)
}
