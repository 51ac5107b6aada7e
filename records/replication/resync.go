package replication

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/system"
)

const (
	syncSuffix = ".sync" // of the new file, until it is complete
	lostSuffix = ".lost" // of an old file whose history differs

	// batch is how many writes one transaction of the new file has.
	batch = 1000

	// closeAfter is how long the old file stays open, so that no reader waits for its end.
	closeAfter = time.Second
)

func randomize(b []byte) { _, _ = rand.Read(b) } // never fails

// resyncing reads the shared state into a new file.
type resyncing struct {
	*Copy

	db      *bolt.DB
	head    Head // place of the new file
	pending []Write
	used    bool // the new file has replaced the old one
}

// resync replaces the file by one with the shared state. why is "" if the histories differ: then it
// keeps the old file, and logs what was in it.
func (c *Copy) resync(ctx context.Context, full bool, why string) error {
	if !full {
		return errBehind
	}
	if why != "" {
		c.options.Logger.Info("reading all records from Redis", "reason", why)
	}
	// An earlier try may have left a file that it could neither fill nor remove.
	if err := os.Remove(c.options.Path + syncSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return &resyncError{err}
	}
	db, err := bolt.Open(c.options.Path+syncSuffix, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType, NoSync: true, NoFreelistSync: true})
	if err != nil {
		return err
	}
	r := &resyncing{Copy: c, db: db}
	err = c.options.Guard(func() error { // a file that stays open could not be opened again
		if err := r.fill(ctx); err != nil {
			return err
		}
		return r.use(why == "")
	})
	switch {
	case err == nil:
		return nil
	case !r.used:
		err = errors.Join(err, r.discard())
	}
	return &resyncError{err}
}

// resyncError is why the shared state could not be read.
type resyncError struct{ error }

// Unwrap returns the cause.
func (e *resyncError) Unwrap() error { return e.error }

// discard removes the new file.
func (r *resyncing) discard() error {
	return errors.Join(r.db.Close(), os.Remove(r.options.Path+syncSuffix))
}

// fill reads the state and all entries that follow.
func (r *resyncing) fill(ctx context.Context) error {
	var node []byte
	err := r.View(func(tx *bolt.Tx) error {
		node = append(node, tx.Bucket(placeBucket).Get(nodeKey)...)
		return nil
	})
	if err != nil {
		return err
	}
	err = r.db.Update(func(tx *bolt.Tx) error {
		if err := r.options.Init(tx); err != nil {
			return err
		}
		return prepare(tx, node)
	})
	if err == nil {
		err = r.history(ctx)
	}
	if err == nil {
		err = r.options.Log.State(ctx, func(writes []Write) error { return r.add(ctx, writes) })
	}
	if err == nil {
		err = r.flush()
	}
	if err != nil {
		return err
	}
	_, target, err := r.options.Log.Read(ctx, math.MaxUint64, 0)
	for err == nil && r.head.Number < target.Number {
		err = r.entries(ctx)
	}
	return err
}

// history reads the last entries of the log without making their writes. So this node can restore
// them if the server loses them.
func (r *resyncing) history(ctx context.Context) error {
	for {
		entries, head, err := r.options.Log.Read(ctx, r.head.Number, 0)
		if err != nil {
			return err
		}
		err = r.db.Update(func(tx *bolt.Tx) error {
			for i := range entries {
				e := &entries[i]
				if next := r.head.Next(e.Data); r.head.Number > 0 && next.Head() != e.Head() {
					return errDiffers
				}
				if err := keep(tx, e); err != nil {
					return err
				}
				r.head = e.Head()
			}
			switch {
			case len(entries) > 0 || r.head == head:
				return nil
			case r.head.Number > 0:
				return errDiffers
			}
			r.head = head // a restore has emptied the log
			return setHead(tx, head)
		})
		if err != nil || r.head == head {
			return err
		}
	}
}

// add adds a page of the state. It reads the log after each batch, before it is trimmed.
func (r *resyncing) add(ctx context.Context, writes []Write) error {
	r.pending = append(r.pending, writes...)
	if len(r.pending) < batch {
		return nil
	}
	if err := r.flush(); err != nil {
		return err
	}
	return r.entries(ctx)
}

func (r *resyncing) flush() error {
	err := r.db.Update(func(tx *bolt.Tx) error { return Replay(tx, r.options.Buckets, r.pending) })
	r.pending = r.pending[:0]
	return err
}

// entries reads and applies entries once. All pages that were read before are in the file.
func (r *resyncing) entries(ctx context.Context) error {
	entries, head, err := r.options.Log.Read(ctx, r.head.Number, 0)
	switch {
	case err != nil:
		return err
	case len(entries) == 0 && head != r.head:
		return errDiffers
	case len(entries) == 0:
		return nil
	}
	return r.db.Update(func(tx *bolt.Tx) error {
		for i := range entries {
			e := &entries[i]
			if next := r.head.Next(e.Data); next.Head() != e.Head() {
				return errDiffers
			}
			writes, _, err := Decode(e.Data)
			if err == nil {
				err = Replay(tx, r.options.Buckets, writes)
			}
			if err == nil {
				err = keep(tx, e)
			}
			if err != nil {
				return err
			}
			r.head = e.Head()
		}
		return nil
	})
}

// use replaces the old file by the new one. lost keeps the old one under another name.
func (r *resyncing) use(lost bool) error {
	if err := r.db.Sync(); err != nil {
		return err
	}
	r.db.NoSync = false
	var publish func()
	err := r.db.View(func(tx *bolt.Tx) (err error) {
		publish, err = r.options.Replaced(tx)
		return err
	})
	if err != nil {
		return err
	}
	if lost {
		if err := r.keepLost(); err != nil {
			return err
		}
	}
	if err := os.Rename(r.options.Path+syncSuffix, r.options.Path); err != nil {
		return err
	}
	// From here on nothing fails. If the disk loses the new name, the old file comes back and is
	// brought up to date again.
	_ = system.SyncFolder(filepath.Dir(r.options.Path))
	old := r.Copy.db.Swap(r.db)
	r.used = true
	r.old.Go(func() {
		select {
		case <-time.After(closeAfter):
		case <-r.closing:
		}
		_ = old.Close() // nothing of it is needed any more
	})
	r.Copy.publish(publish)
	r.options.Logger.Info("read all records from Redis", "last", r.head.Number)
	return nil
}

// dropLost removes the kept file, because it may have texts that must be forgotten.
func (c *Copy) dropLost() {
	err := os.Remove(c.options.Path + lostSuffix)
	switch {
	case err == nil:
		c.options.Logger.Warn("the file of lost records is removed, because a subject was erased that may be in it", "file", c.options.Path+lostSuffix)
	case !errors.Is(err, os.ErrNotExist):
		c.options.Logger.Error("cannot remove the file of lost records, which may have a subject that was erased", "file", c.options.Path+lostSuffix, "error", err)
	}
}

// alone returns the names of what the old file has and the new one does not, if the old one has no history:
// it was not shared. It returns nil if it was.
func (r *resyncing) alone() (names []string, err error) {
	err = r.View(func(old *bolt.Tx) error {
		if headOf(old).Number > 0 {
			return nil
		}
		names = []string{}
		return r.db.View(func(tx *bolt.Tx) error {
			for _, bucket := range r.options.Buckets {
				c := old.Bucket(bucket).Cursor()
				for key, value := c.First(); key != nil; key, value = c.Next() {
					name := r.options.Describe(&Write{Key: WriteKey(bucket, key)})
					if name != "" && !bytes.Equal(tx.Bucket(bucket).Get(key), value) {
						names = append(names, name)
					}
				}
			}
			return nil
		})
	})
	return names, err
}

// keepLost keeps the old file under another name, and logs what only it contains.
func (r *resyncing) keepLost() error {
	path := r.options.Path + lostSuffix
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Link(r.options.Path, path); err != nil {
		return err
	}
	const hint = "compare the kept file with the records, and make lost changes again"
	if err := r.options.Guard(func() error { return r.logLost(path, hint) }); err != nil {
		// The kept file has all that can be read, and no page of it keeps this node from the others' records.
		r.options.Logger.Warn("cannot read all that only this node's copy has: using the records in Redis", "error", err, "kept", path, "hint", hint)
	}
	return nil
}

// logLost logs what only the old file contains, which is kept at a path.
func (r *resyncing) logLost(path, hint string) error {
	if alone, err := r.alone(); err != nil || alone != nil {
		r.options.Logger.Warn("this node's file was not shared, and Redis has records already: using those in Redis",
			"lost", list(alone), "lost_records", len(alone), "kept", path, "hint", hint)
		return err
	}
	var common, last uint64
	var names []string
	err := r.View(func(old *bolt.Tx) error {
		last = headOf(old).Number
		return r.db.View(func(tx *bolt.Tx) error {
			for common = last; common > 0; common-- {
				was, there := entryAt(old, common)
				if !there {
					return nil
				}
				if e, ok := entryAt(tx, common); ok && e.Hash == was.Hash {
					return nil
				}
				writes, _, err := Decode(was.Data)
				if err != nil { // forgotten
					continue
				}
				for i := range writes {
					if name := r.options.Describe(&writes[i]); name != "" {
						names = append(names, name)
					}
				}
			}
			return nil
		})
	})
	r.options.Logger.Warn("the records in Redis have another history than this node's copy: using those in Redis", "lost_first", common+1, "lost_last", last,
		"lost", list(names), "kept", path, "hint", hint)
	return err
}
