package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"stint/internal/system"
	"stint/records/dbfile"
)

const (
	// lockWait is how long Open waits for another process to close the file, such as a gateway that is
	// being replaced.
	lockWait = 2 * time.Second

	// batchDelay is how long a change waits for others, to be synced with them.
	batchDelay = time.Millisecond

	formatNow = 1
)

var (
	aboutBucket   = []byte("stint queue")
	entriesBucket = []byte("entries")
	dataBucket    = []byte("data")
	answersBucket = []byte("answers")
	linesBucket   = []byte("lines")
	headsBucket   = []byte("heads")
	dueBucket     = []byte("due")
	statesBucket  = []byte("states")
	rulesBucket   = []byte("rules")

	buckets = [][]byte{
		aboutBucket, entriesBucket, dataBucket, answersBucket, linesBucket, headsBucket, dueBucket, statesBucket, rulesBucket,
	}
	formatKey = []byte("format")
)

// Open opens the file of a queue, or creates it in an existing folder. The error is a [*dbfile.Fault] with
// a hint. An existing file that is empty or cut is an error, never a new queue.
func Open(path string) (*Storage, error) { return open(path, lockWait) }

// OpenNow is Open that does not wait for another process to close the file.
func OpenNow(path string) (*Storage, error) { return open(path, 10*time.Millisecond) }

func open(path string, wait time.Duration) (*Storage, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path); err != nil {
			return nil, opening(err)
		}
	case err != nil:
		return nil, opening(err)
	case !info.Mode().IsRegular():
		return nil, &dbfile.Fault{Problem: "not a file", Hint: "name a file of its own for the queue"}
	case info.Size() == 0:
		return nil, damaged("the file is empty, and the file of a queue never is")
	}
	if err := dbfile.Whole(path, wait); err != nil {
		return nil, opening(err)
	}
	db, err := openDB(path, wait)
	if err != nil {
		return nil, opening(err)
	}
	s := &Storage{db: db}
	if err := s.guard(func() error { return db.View(check) }); err != nil {
		_ = db.Close() // the file is not usable anyway
		return nil, opening(err)
	}
	return s, nil
}

func openDB(path string, wait time.Duration) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: wait, FreelistType: bolt.FreelistMapType})
	if err == nil {
		db.MaxBatchDelay = batchDelay
	}
	return db, err
}

// create makes the file under another name, and gives it its name when it is complete. So an empty file
// is always a damaged one. If another process creates it meanwhile, that one's file stays.
func create(path string) error {
	half := fmt.Sprintf("%s.new%d", path, os.Getpid())
	defer func() { _ = os.Remove(half) }() // it may not exist
	db, err := openDB(half, lockWait)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return tx.Bucket(aboutBucket).Put(formatKey, []byte{formatNow})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return dbfile.Writing(err)
	}
	if err := os.Link(half, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return system.SyncFolder(filepath.Dir(path))
}

// check checks that the file is a complete file of a queue.
func check(tx *bolt.Tx) error {
	about := tx.Bucket(aboutBucket)
	if about == nil {
		return &dbfile.Fault{Problem: "a database, but none of a queue", Hint: "name another file; this one belongs to another program"}
	}
	format := about.Get(formatKey)
	if len(format) == 1 && format[0] > formatNow {
		return &dbfile.Fault{Problem: "written by a later version of stint-gateway", Hint: "start that version, or name another file"}
	}
	if len(format) != 1 || format[0] != formatNow {
		return damaged("the version of its format is missing")
	}
	for _, name := range buckets {
		if tx.Bucket(name) == nil {
			return damaged(fmt.Sprintf("the part %q is missing", name))
		}
	}
	return nil
}

// opening returns the fault for an error when opening.
func opening(err error) *dbfile.Fault {
	fault := dbfile.Opening(err)
	switch {
	case InUse(err):
		fault.Hint = "two gateways cannot share a file: stop the other one, give each a file of its own, or keep the queue in Redis (queue redis://...)"
	case errors.Is(fault, dbfile.ErrDamaged):
		fault.Hint = damageHint
	}
	return fault
}

// InUse reports whether the file could not be opened because another process has it open.
func InUse(err error) bool { return errors.Is(err, bolterrors.ErrTimeout) }

const damageHint = "accepted requests may be lost: look for a faulty disk or another writer; put back a copy of the file, or move it away to start with an empty queue"

// damaged returns the fault of a damaged file.
func damaged(how string) *dbfile.Fault {
	fault := dbfile.Damaged(how)
	fault.Hint = damageHint
	return fault
}
