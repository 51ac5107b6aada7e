package records

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/apikey"
	"stint/records/dbfile"
	"stint/records/index"
	"stint/records/replication"
	"stint/records/trail"
)

// Keys in the bucket [dbfile.About].
var (
	overwriteKey = []byte("overwrite") // there after an erasure, until unused parts of the file are overwritten
	sweepKey     = []byte("sweep")     // kind and name of the record at which the next sweep begins
)

var kinds = []Kind{Subjects, Overrides, Bans, APIKeys, Rules, Plans, Grants}

// bucketOf returns the name of the bucket of a kind.
func bucketOf(k Kind) []byte { return []byte("kind " + k) }

// Entry is a stored record.
type Entry struct {
	Record   Record
	Revision uint64    // the revision of the file that wrote the record
	Changed  time.Time // when it was written
}

// Options are the settings of a File.
type Options struct {
	// TrustedProxies are the networks that a ban must not deny, unless it is forced.
	TrustedProxies []netip.Prefix

	// AuditFor is how long entries of the audit trail are kept; 0 for DefaultAuditFor. Each change drops some
	// of the older ones.
	AuditFor time.Duration

	// Rules keeps the rules per API in force; nil if the file has none.
	Rules RuleSet

	// Plans keeps the plans in force; nil if the file has none.
	Plans PlanSet

	// Log is the log that nodes share; nil if the file is not shared. Then the file is this node's copy,
	// and Follow must run.
	Log replication.Log

	// Node is the name of this node among those that share the log.
	Node string

	// LogHint returns what to do about an error of Log; nil for no hints.
	LogHint func(error) string

	// Logger gets messages about the log; nil for none.
	Logger *slog.Logger
}

// DefaultAuditFor is the default of Options.AuditFor: 400 days.
const DefaultAuditFor = 400 * 24 * time.Hour

// File is a file of records. It is safe for concurrent use; changes are made one after another, and
// readers never wait for them. Only one process at a time can open the file. The file never shrinks,
// but reuses the space of deleted records.
//
// Banned networks and patterns are in memory, and the last 10,000 subjects and API keys are in a
// cache. All else is read from the file when it is needed.
//
// Every change has a revision, which only grows. A process that is killed in a change leaves the
// revision before it or after it, never a part.
type File struct {
	path    string
	options Options
	copy    *replication.Copy

	memory   atomic.Pointer[memory]
	head     atomic.Pointer[trail.Head] // of the audit trail
	failed   atomic.Pointer[Error]      // of the last change, if the disk did not take it
	subjects *index.Cache[entryName, *Known]
	keys     *index.Cache[apikey.Hash, *APIKey]
}

// Open opens the file, or creates it in an existing folder. The error is an [*Error].
func Open(path string, options Options) (*File, error) {
	f := &File{path: path, options: options, subjects: index.NewCache[entryName, *Known](), keys: index.NewCache[apikey.Hash, *APIKey]()}
	var db *bolt.DB
	err := f.guard(func() (err error) {
		if db, err = dbfile.Open(path, buckets()); err != nil {
			return f.opening(err)
		}
		if f.copy, err = replication.New(db, f.replication()); err != nil {
			return f.opening(err)
		}
		return f.load()
	})
	if err != nil {
		if db != nil {
			_ = db.Close() // the file is unusable anyway
		}
		return nil, err
	}
	return f, nil
}

// load reads what is always in memory, and ends an erasure in which the process was killed.
func (f *File) load() error {
	unfinished := false
	var rules, plans func()
	err := f.view(func(tx *bolt.Tx) (err error) {
		if rules, err = f.prepareAllRules(tx); err != nil {
			return err
		}
		plans = f.rulesOrLog(f.preparePlans(tx, nil))
		m, err := f.loadMemory(tx)
		head := trail.Last(tx)
		f.memory.Store(m)
		f.head.Store(&head)
		unfinished = tx.Bucket(dbfile.About).Get(overwriteKey) != nil
		return err
	})
	if err != nil {
		return err
	}
	plans()
	if rules(); !unfinished {
		return nil
	}
	return f.overwrite()
}

// buckets returns the names of all buckets.
func buckets() [][]byte {
	names := slices.Concat([][]byte{dbfile.About}, trail.Buckets(), dbfile.OutcomeBuckets())
	for _, kind := range kinds {
		names = append(names, bucketOf(kind))
	}
	return names
}

// Close closes the file.
func (f *File) Close() error {
	if err := f.copy.Close(); err != nil {
		return f.fault("cannot close it: "+err.Error(), "check the disk", err)
	}
	return nil
}

// Revision returns the revision of the last change; 0 for a new file.
func (f *File) Revision() (revision uint64, err error) {
	err = f.view(func(tx *bolt.Tx) error {
		revision = dbfile.Revision(tx)
		return nil
	})
	return revision, err
}

// Get returns a record. It reports false if there is none.
func (f *File) Get(id ID) (e Entry, ok bool, err error) {
	err = f.view(func(tx *bolt.Tx) (err error) {
		e, ok, err = f.get(tx, id)
		return err
	})
	return e, ok, err
}

func (f *File) get(tx *bolt.Tx, id ID) (e Entry, ok bool, err error) {
	b := tx.Bucket(bucketOf(id.Kind))
	if b == nil || id.Name == "" {
		return e, false, nil
	}
	value := b.Get([]byte(id.Name))
	if value == nil {
		return e, false, nil
	}
	e, err = f.decodeEntry(id.Kind, []byte(id.Name), value)
	return e, err == nil, err
}

// page is how many records All reads at once.
const page = 500

// All returns the records of a kind ordered by name. It reads them in pages, so that a slow caller
// delays no change; a change meanwhile may be seen in part. The last element may be an [*Error].
func (f *File) All(kind Kind) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var after []byte
		for {
			entries, err := f.pageOf(kind, &after, page)
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if len(entries) < page {
				return
			}
		}
	}
}

// Page returns the records of a kind that follow a name, in the order of names, and at most that many.
func (f *File) Page(kind Kind, after string, most int) ([]Entry, error) {
	name := []byte(after)
	return f.pageOf(kind, &name, most)
}

// pageOf returns the records that follow a name, and sets the name to the last of them.
func (f *File) pageOf(kind Kind, after *[]byte, most int) (entries []Entry, err error) {
	err = f.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketOf(kind))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		name, value := c.Seek(*after)
		if name != nil && bytes.Equal(name, *after) {
			name, value = c.Next()
		}
		for ; name != nil && len(entries) < most; name, value = c.Next() {
			e, err := f.decodeEntry(kind, name, value)
			if err != nil {
				return err
			}
			entries = append(entries, e)
			*after = append((*after)[:0], name...)
		}
		return nil
	})
	return entries, err
}

// view reads the file in one transaction.
func (f *File) view(read func(*bolt.Tx) error) error {
	return f.guard(func() error {
		if err := f.copy.View(read); err != nil {
			return f.opening(err)
		}
		return nil
	})
}

// update makes a change in one transaction, and calls publish, which puts it in force, before another
// change begins. With a shared log it may call change several times.
func (f *File) update(ctx context.Context, change func(*replication.Tx) error, publish func()) error {
	return f.guard(func() error {
		if err := f.copy.Update(ctx, change, publish); err != nil {
			return f.writing(err)
		}
		f.failed.Store(nil)
		return nil
	})
}

// Count returns the number of records of a kind. It reads all pages of their index.
func (f *File) Count(kind Kind) (n int, err error) {
	err = f.view(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketOf(kind)); b != nil {
			n = b.Stats().KeyN
		}
		return nil
	})
	return n, err
}
