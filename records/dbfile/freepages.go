package dbfile

import (
	"bytes"
	"errors"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"
)

// OverwriteFree fills all pages that the file at path does not use with zeros, and syncs the file. A process that is
// killed meanwhile leaves the content as it is, and some of these pages as they were.
//
// Changes wait until OverwriteFree has ended. Readers do not: those that begin after the last change read
// none of these pages. For those that began before, OverwriteFree calls wait, which returns when they have
// ended.
//
// Copies that the disk or the file system makes by themselves are not overwritten, such as snapshots,
// the worn blocks of an SSD, or the old blocks of a file system that never writes in place.
func OverwriteFree(db *bolt.DB, path string, wait func()) (err error) {
	tx, err := db.Begin(true) // no other change can use a free page now
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	wait()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size := db.Info().PageSize
	page, zeros := make([]byte, size), make([]byte, size)
	for id := 2; ; id++ { // after the two meta pages
		info, err := tx.Page(id) // nil after the last page that was ever used
		if err != nil {
			return err
		}
		if info != nil && info.Type != "free" {
			continue
		}
		at := int64(id) * int64(size)
		n, err := file.ReadAt(page, at)
		if !bytes.Equal(page[:n], zeros[:n]) {
			if _, err := file.WriteAt(zeros[:n], at); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return file.Sync()
		}
		if err != nil {
			return err
		}
	}
}
