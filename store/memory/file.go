package memory

import (
	"bufio"
	"io"

	"stint/internal/system"
)

// SaveFile writes a snapshot to a file that only its owner may read (mode 0600). It writes name.tmp
// in the same folder, syncs it to disk, and then renames it to name. Whatever happens meanwhile,
// even a crash of the machine, the file contains the previous snapshot or this one. If name is a
// link, SaveFile replaces the file that the link leads to. Only one process at a time may save to a
// name.
func (s *Store) SaveFile(name string) error { return system.ReplaceFile(name, s.WriteSnapshot) }

// LoadFile returns a store with the states of the snapshot in a file, see Load. If there is no such
// file the error is fs.ErrNotExist.
func LoadFile(name string, options Options) (s *Store, err error) {
	err = system.ReadFile(name, func(r io.Reader) error {
		s, err = Load(bufio.NewReaderSize(r, blockSize), options)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// SetAside renames a file that Load refused to name.damaged-N, with the first unused N from 1, and
// returns the new name. So the file stays for an inspection, and the next snapshot can use the
// name. If name is a link, SetAside renames its target, in the target's folder.
func SetAside(name string) (string, error) { return system.SetAside(name) }
