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

// SaveFile writes a snapshot to a file that only its owner may read (mode 0600). It writes name.tmp
// in the same folder, syncs it to disk, and then renames it to name. Whatever happens meanwhile,
// even a crash of the machine, the file contains the previous snapshot or this one. If name is a
// link, SaveFile replaces the file that the link leads to. Only one process at a time may save to a
// name.
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

// saveNew writes a snapshot to a new file, and removes the file on an error.
func (s *Store) saveNew(name string) error {
	// A crash may have left the file. If it is a link, this removes the link and not its target.
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

// syncFolder syncs the names in a folder to disk.
func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// LoadFile returns a store with the states of the snapshot in a file, see Load. If there is no such
// file the error is fs.ErrNotExist.
func LoadFile(name string, options Options) (*Store, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait until somebody writes into it
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

// SetAside renames a file that Load refused to name.damaged-N, with the first unused N from 1, and
// returns the new name. So the file stays for an inspection, and the next snapshot can use the
// name. If name is a link, SetAside renames its target, in the target's folder.
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
