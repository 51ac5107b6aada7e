package book

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/rule/catalog"
)

const (
	// lockWait is how long OpenDisk waits for another process to close the file, such as a service
	// that is being replaced.
	lockWait = 2 * time.Second

	// formatNow is the version of the file format that this program writes.
	formatNow = 1

	// fill is the fill ratio of pages after an import, which inserts rules in order.
	fill = 0.9
)

// The buckets of the file, and the keys in the first one.
var (
	aboutBucket = []byte("stint rules")
	rulesBucket = []byte("rules")
	formatKey   = []byte("format")
)

// Disk is a file of rules. It is safe for concurrent use; changes are made one after another, and
// readers never wait. A rule takes about 120 bytes of the file. The file never shrinks: the next
// import reuses the space of replaced rules, so a million rules that are replaced from time to time
// take 220 MB.
type Disk struct {
	path string
	db   *bolt.DB
}

// OpenDisk opens the file, or creates it in an existing folder. The error is a [*DiskError].
func OpenDisk(path string) (*Disk, error) {
	s := &Disk{path: path}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, s.fault("not a file", "name a file of its own for the rules", nil)
	}
	err := s.guard(func() (err error) {
		s.db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType})
		if err != nil {
			return s.opening(err)
		}
		return s.prepare()
	})
	if err != nil {
		if s.db != nil {
			_ = s.db.Close() // the file is unusable anyway
		}
		return nil, err
	}
	return s, nil
}

// prepare checks that the file is a file of rules; it initializes a new file.
func (s *Disk) prepare() error {
	var fresh bool
	err := s.db.View(func(tx *bolt.Tx) error {
		if err := s.whole(tx); err != nil {
			return err
		}
		if name, _ := tx.Cursor().First(); name == nil {
			fresh = true
			return nil
		}
		about := tx.Bucket(aboutBucket)
		switch {
		case about == nil || tx.Bucket(rulesBucket) == nil:
			return s.fault("a database, but none of rules", "name another file; this one belongs to another program", nil)
		case !bytes.Equal(about.Get(formatKey), []byte{formatNow}):
			return s.fault("written by a later version of stint", "start that version, or name another file", nil)
		}
		return nil
	})
	if err != nil || !fresh {
		return err
	}
	return s.update(func(tx *bolt.Tx) error {
		about, err := tx.CreateBucket(aboutBucket)
		if err != nil {
			return err
		}
		if _, err = tx.CreateBucket(rulesBucket); err != nil {
			return err
		}
		return about.Put(formatKey, []byte{formatNow})
	})
}

// whole checks that the file has its full length; otherwise missing data would be noticed only when
// it is read.
func (s *Disk) whole(tx *bolt.Tx) error {
	info, err := os.Stat(s.path)
	if err != nil {
		return s.opening(err)
	}
	if info.Size() < tx.Size() {
		return s.damaged(fmt.Sprintf("%d bytes are there of %d", info.Size(), tx.Size()))
	}
	return nil
}

// Close closes the file.
func (s *Disk) Close() error {
	if err := s.db.Close(); err != nil {
		return s.fault("cannot close it: "+err.Error(), "check the disk", err)
	}
	return nil
}

// Path returns the name of the file.
func (s *Disk) Path() string { return s.path }

// Rules returns all rules ordered by ID, as they are when the iteration begins. The last element
// may be a [*DiskError]. Iterate quickly: the file cannot reuse the space of old rules meanwhile.
func (s *Disk) Rules() iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		more := true
		err := s.read(func(rules *bolt.Bucket, give func(func())) error {
			c := rules.Cursor()
			for key, value := c.First(); key != nil && more; key, value = c.Next() {
				r, err := s.decode(key, value)
				if err != nil {
					return err
				}
				give(func() { more = yield(r, nil) })
			}
			return nil
		})
		if err != nil && more {
			yield(catalog.Rule{}, err)
		}
	}
}

// Put adds a rule or replaces the rule with its ID. The rule is on disk when Put returns nil.
func (s *Disk) Put(r catalog.Rule) error {
	return s.update(func(tx *bolt.Tx) error {
		return tx.Bucket(rulesBucket).Put([]byte(r.ID), encode(nil, &r))
	})
}

// Delete removes a rule if it exists.
func (s *Disk) Delete(id string) error {
	return s.update(func(tx *bolt.Tx) error { return tx.Bucket(rulesBucket).Delete([]byte(id)) })
}

// update changes the file in one transaction.
func (s *Disk) update(change func(*bolt.Tx) error) error {
	return s.guard(func() error {
		err := s.db.Update(change)
		if err != nil {
			return s.writing(err)
		}
		return nil
	})
}

// read calls do with the rules. do must wrap each call of the caller's code in give, so that a
// panic there is not treated as an error of the file.
func (s *Disk) read(do func(rules *bolt.Bucket, give func(func())) error) error {
	outside := false
	give := func(call func()) {
		outside = true
		call()
		outside = false
	}
	return s.guardBut(&outside, func() error {
		return s.db.View(func(tx *bolt.Tx) error { return do(tx.Bucket(rulesBucket), give) })
	})
}
