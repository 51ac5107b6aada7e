package dbfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/system"
	"stint/records/replication"
)

const (
	// lockWait is how long Open waits for another process to close the file, such as a service that
	// is being replaced.
	lockWait = 2 * time.Second

	// formatNow is the version of the file format that this program writes.
	formatNow = 1
)

// About is the bucket of what is known of the file itself, such as its revision.
var About = []byte("stint records")

// Keys in the bucket About.
var (
	FormatKey   = []byte("format")
	RevisionKey = []byte("revision")
)

// Open opens the file of records with these buckets, of which About is one, or creates it in an existing
// folder. It checks that the file has all of them, in a format that this program reads. The error is a
// [*Fault].
func Open(path string, buckets [][]byte) (*bolt.DB, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path, buckets); err != nil {
			return nil, err
		}
	case err == nil && !info.Mode().IsRegular():
		return nil, &Fault{Problem: "not a file", Hint: "name a file of its own for the records"}
	case err == nil && info.Size() == 0:
		return nil, &Fault{
			Problem: "damaged: it is empty, as if its content was cut off", Err: ErrDamaged,
			Hint: "put back a copy of the file; only if it never had records, remove it, and a new one is made",
		}
	}
	if err := Whole(path, lockWait); err != nil {
		return nil, Opening(err)
	}
	db, err := open(path, buckets)
	if err == nil {
		dropUnfinished(path)
	}
	return db, err
}

const freshSuffix = ".new" // of a file until it is complete; then digits

// dropUnfinished removes what processes left that were killed while they made the file.
func dropUnfinished(path string) {
	list, _ := os.ReadDir(filepath.Dir(path)) // what cannot be listed stays
	for _, entry := range list {
		digits, fresh := strings.CutPrefix(entry.Name(), filepath.Base(path)+freshSuffix)
		if fresh && digits != "" && strings.Trim(digits, "0123456789") == "" {
			_ = os.Remove(filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
}

// create makes a new file. It is complete when it gets its name, so that no file is empty, not even after
// the process was killed.
func create(path string, buckets [][]byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+freshSuffix+"*")
	if err != nil {
		return Opening(err)
	}
	fresh := file.Name()
	defer os.Remove(fresh) //nolint:errcheck // it has another name now, or is of no use
	if err := file.Close(); err != nil {
		return Writing(err)
	}
	db, err := open(fresh, buckets)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return Writing(err)
	}
	// Another process may make the file at the same time. Link, unlike Rename, keeps its file.
	err = os.Link(fresh, path)
	if _, missing := os.Stat(path); err != nil && missing != nil { // a file system without links
		err = os.Rename(fresh, path)
		if err != nil {
			return Opening(err)
		}
	}
	if err := system.SyncFolder(filepath.Dir(path)); err != nil {
		return Writing(err)
	}
	return nil
}

// open opens a file, or makes a file of records of an empty one.
func open(path string, buckets [][]byte) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, Opening(err)
	}
	err = Guard(func() error { return prepare(db, path, buckets) }, func(how string) error { return Damaged(how) })
	if err != nil {
		_ = db.Close() // the file is unusable anyway
		return nil, Opening(err)
	}
	return db, nil
}

// prepare checks that the file is a file of records; it initializes a new file.
func prepare(db *bolt.DB, path string, buckets [][]byte) error {
	var fresh, lacking bool
	err := db.View(func(tx *bolt.Tx) error {
		if err := whole(tx, path); err != nil {
			return err
		}
		if name, _ := tx.Cursor().First(); name == nil {
			fresh = true
			return nil
		}
		lacking = slices.ContainsFunc(later, func(name string) bool { return tx.Bucket([]byte(name)) == nil })
		if lacking {
			return Check(tx, nil) // before anything is written: it may be the database of another program
		}
		return Check(tx, buckets)
	})
	switch {
	case err != nil || !fresh && !lacking:
		return err
	case lacking:
		return db.Update(func(tx *bolt.Tx) error { return complete(tx, buckets) })
	}
	if err := db.Update(func(tx *bolt.Tx) error { return Initialize(tx, buckets) }); err != nil {
		return Writing(err)
	}
	return nil
}

// later are the buckets that an earlier version did not have, one for each kind of records that was added since. A
// file without them is completed.
var later = []string{"kind plan", "kind grant"}

// complete makes the buckets that the file lacks since an earlier version wrote it, and checks the others.
func complete(tx *bolt.Tx, buckets [][]byte) error {
	for _, name := range later {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return Writing(err)
		}
	}
	return Check(tx, buckets)
}

// Whole checks that the file at path has its full length. bbolt panics when it opens a file for writing
// whose list of free pages was cut off. wait is how long to wait for another process to close the file. The
// error may be a [*Fault].
func Whole(path string, wait time.Duration) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: wait, ReadOnly: true})
	if err != nil {
		return err
	}
	err = Guard(func() error { return db.View(func(tx *bolt.Tx) error { return whole(tx, path) }) }, func(how string) error { return Damaged(how) })
	return errors.Join(err, db.Close())
}

// whole checks that the file has its full length; otherwise missing data would be noticed only when
// it is read.
func whole(tx *bolt.Tx, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return Damaged(fmt.Sprintf("%d bytes are there of %d", info.Size(), tx.Size()))
	}
	return nil
}

// Check checks that the file has all parts, in a format that this program reads. The error is a
// [*Fault].
func Check(tx *bolt.Tx, buckets [][]byte) error {
	about := tx.Bucket(About)
	if about == nil {
		return &Fault{Problem: "a database, but none of records", Hint: "name another file; this one belongs to another program"}
	}
	format := about.Get(FormatKey)
	if len(format) == 1 && format[0] > formatNow {
		return &Fault{Problem: "written by a later version of stint", Hint: "start that version, or name another file"}
	}
	if !bytes.Equal(format, []byte{formatNow}) {
		return Damaged("the version of its format is missing")
	}
	for _, name := range buckets {
		if tx.Bucket(name) == nil {
			return Damaged(fmt.Sprintf("the part %q is missing", name))
		}
	}
	if len(about.Get(RevisionKey)) != 8 {
		return Damaged("the revision is missing")
	}
	return nil
}

// Initialize makes an empty file with these buckets.
func Initialize(tx *bolt.Tx, buckets [][]byte) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	if err := tx.Bucket(About).Put(RevisionKey, make([]byte, 8)); err != nil {
		return err
	}
	return tx.Bucket(About).Put(FormatKey, []byte{formatNow})
}

// Revision returns the revision of the last change; 0 for a new file.
func Revision(tx *bolt.Tx) uint64 { return binary.BigEndian.Uint64(tx.Bucket(About).Get(RevisionKey)) }

// NextRevision gives the file its next revision, and returns it.
func NextRevision(tx *replication.Tx) (uint64, error) {
	revision := Revision(tx.Tx) + 1
	return revision, tx.Bucket(About).Put(RevisionKey, binary.BigEndian.AppendUint64(nil, revision))
}

// Conflict says how the revision of a record or of the file, 0 for a deleted record, is another than the
// wanted one. last is the revision of the file.
func Conflict(want, is, last uint64) (problem, hint string) {
	hint = "read it again, and repeat the change if it still makes sense"
	switch {
	case want > last:
		return fmt.Sprintf("revision %d does not exist yet: the last one is %d", want, last), "check whether this is the right file, or a copy of an older one"
	case is == 0:
		return fmt.Sprintf("deleted since revision %d", want), hint
	}
	return fmt.Sprintf("changed since revision %d: it has revision %d", want, is), hint
}
