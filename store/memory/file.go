package memory

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"stint/internal/system"
)

// SaveFile writes a snapshot to a file that only its owner may read (mode 0600). It
// writes name.tmp beside it, waits until the disk has it, and then gives it the name:
// whatever happens meanwhile, a crash of the machine too, the file holds the snapshot
// before or this one. Where name is a link, the file that the link leads to is replaced.
// One process at a time may save to a name.
func (s *Store) SaveFile(name string) error {
	name, err := system.LinkTarget(name)
	if err != nil {
		return err
	}
	temporary := name + ".tmp"
	if err := s.saveNew(temporary); err != nil {
		return err
	}
	if err = os.Rename(temporary, name); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err = syncFolder(filepath.Dir(name)); err != nil {
		return fmt.Errorf("saved, but a crash of the machine may undo it: %w", err)
	}
	return nil
}

// saveNew writes a snapshot to a file that it makes, and leaves none on an error.
func (s *Store) saveNew(name string) error {
	// What a crash left. A link that somebody put there is removed, not followed.
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = s.WriteSnapshot(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// syncFolder waits until the disk has the names of a folder.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// LoadFile returns a store with the states of the snapshot in a file, see Load. Where
// there is no such file the error is fs.ErrNotExist.
func LoadFile(name string, options Options) (*Store, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for somebody to write into it
		return nil, &fs.PathError{Op: "load", Path: name, Err: errNoFile}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	s, err := Load(bufio.NewReaderSize(f, blockSize), options)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return s, nil
}

var errNoFile = errors.New("not a regular file")

// SetAside renames a file that Load refused to name.damaged-N, with the first N from
// 1 that is free, and returns the new name. So nothing is lost that somebody may
// still want to look at, and the next snapshot has its place. Of a link, the file that it
// leads to is renamed, in its own folder.
func SetAside(name string) (string, error) {
	name, err := system.LinkTarget(name)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.damaged-%d", name, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return aside, os.Rename(name, aside)
	}
}
