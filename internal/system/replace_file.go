package system

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReplaceFile writes a file that only its owner may read (mode 0600). It writes name.tmp in the
// same folder, syncs it to disk, and then renames it to name. Whatever happens meanwhile, even a
// crash of the machine, the file contains what it had before or all that write wrote. If name is a
// link, ReplaceFile replaces the file that the link leads to. Only one process at a time may
// replace a file.
func ReplaceFile(name string, write func(io.Writer) error) error {
	name, err := LinkTarget(name)
	if err != nil {
		return err
	}
	temporary := name + ".tmp"
	if err := writeNew(temporary, write); err != nil {
		return err
	}
	if err = os.Rename(temporary, name); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err = SyncFolder(filepath.Dir(name)); err != nil {
		return fmt.Errorf("saved, but a crash of the machine may undo it: %w", err)
	}
	return nil
}

// writeNew writes a new file, and removes the file on an error.
func writeNew(name string, write func(io.Writer) error) error {
	// A crash may have left the file. If it is a link, this removes the link and not its target.
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// RemoveFile removes a file so that a crash of the machine does not bring it back.
func RemoveFile(name string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(name))
}

// SyncFolder syncs the names in a folder to disk.
func SyncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// ReadFile calls read with the content of a regular file. If there is no such file the error is
// fs.ErrNotExist.
func ReadFile(name string, read func(io.Reader) error) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait until somebody writes into it
		return &fs.PathError{Op: "load", Path: name, Err: errNoFile}
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(read(f), f.Close())
}

var errNoFile = errors.New("not a regular file")
