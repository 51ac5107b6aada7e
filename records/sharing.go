package records

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"

	bolt "go.etcd.io/bbolt"

	"stint/records/dbfile"
	"stint/records/replication"
	"stint/records/trail"
)

// ErrUnavailable is a cause of an [Error] of a change that cannot be made now, because the log that
// nodes share cannot be reached. If stint.ErrUnknown is a cause too, the answer was lost, so that the
// change may have been made, or will be; a repeat with the same idempotency key has the outcome.
// Otherwise nothing has changed, nor will.
var ErrUnavailable = errors.New("the records cannot be changed now")

// ErrTooLarge is a cause of an [Error] of a change that is too large for nodes to share. Nothing has
// changed; the parts of the change can be made.
var ErrTooLarge = replication.ErrTooLarge

// Follow brings the file up to date with the shared log until ctx is done. Call it once. Without a log
// it returns at once.
func (f *File) Follow(ctx context.Context) { f.copy.Follow(ctx) }

// Known returns a channel that is closed when the file has the records: at once, except for a new copy
// of shared records that has not been up to date yet.
func (f *File) Known() <-chan struct{} { return f.copy.Known() }

// replication returns the options of the copy.
func (f *File) replication() replication.Options {
	o := replication.Options{
		Path: f.path, Buckets: buckets(), Log: f.options.Log, Node: f.options.Node, Hint: f.options.LogHint, Logger: f.options.Logger,
		Revision: dbfile.Revision, Init: func(tx *bolt.Tx) error { return dbfile.Initialize(tx, buckets()) }, Applied: f.applied, Replaced: f.replaced, Describe: describe, Guard: f.guard,
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// unavailable returns the Error for a change that cannot be made now.
func unavailable(err *replication.UnavailableError) *Error {
	e := &Error{Where: "records", Problem: err.Problem, Hint: err.Hint, Err: err}
	if !errors.Is(err, ErrTooLarge) {
		e.Err = errors.Join(ErrUnavailable, err)
	}
	return e
}

// idOf returns the record that a write writes; false if it writes something else.
func idOf(w *replication.Write) (ID, bool) {
	bucket, key := replication.Split(w)
	for _, kind := range kinds {
		if string(bucket) == string(bucketOf(kind)) {
			return ID{kind, string(key)}, true
		}
	}
	return ID{}, false
}

func describe(w *replication.Write) string {
	if id, ok := idOf(w); ok {
		return id.String()
	}
	return ""
}

// applied puts changes of other nodes in force. forget means that one of them erased a subject.
func (f *File) applied(tx *bolt.Tx, writes []replication.Write, forget bool) (publish func(), err error) {
	then, err := f.after(tx, writes)
	if err != nil || !forget {
		return then, err
	}
	return func() {
		then()
		f.overwriteOrLog()
	}, markErased(tx)
}

// after returns a function that puts writes in force, which the transaction contains.
func (f *File) after(tx *bolt.Tx, writes []replication.Write) (publish func(), err error) {
	next := f.memory.Load()
	var edits, some []Edit // all, and those of one revision
	revision := next.revision
	end := func() (err error) {
		next, err = next.after(some, revision)
		edits, some = append(edits, some...), nil
		return err
	}
	for i := range writes {
		bucket, key := replication.Split(&writes[i])
		if string(bucket) == string(dbfile.About) && string(key) == string(dbfile.RevisionKey) && len(writes[i].Value) == 8 {
			if err := end(); err != nil { // too many patterns for this version
				return f.replaced(tx)
			}
			revision = binary.BigEndian.Uint64(writes[i].Value)
		}
		id, ok := idOf(&writes[i])
		switch {
		case !ok:
		case writes[i].Deleted:
			some = append(some, Edit{Delete: id})
		default:
			e, err := f.decodeEntry(id.Kind, key, writes[i].Value)
			if err != nil {
				return nil, err
			}
			some = append(some, Edit{Put: e.Record})
		}
	}
	if err := end(); err != nil {
		return f.replaced(tx)
	}
	rules, plans := f.rulesOrLog(f.prepareRules(lastEdits(edits))), f.rulesOrLog(f.preparePlans(tx, edits))
	head := trail.Last(tx)
	return func() {
		rules()
		plans()
		f.publish(next, edits, head)
	}, nil
}

// rulesOrLog returns a function that puts prepared rules in force. If they were refused it logs that, or the
// function remembers them: a node of another version, or with other rules, may accept what this one does not,
// and other records must not wait for them.
func (f *File) rulesOrLog(commit func(), err error) func() {
	if commit != nil {
		return commit
	}
	if f.options.Logger != nil {
		f.options.Logger.Error("rules per API or plans refused: keeping the old ones", "error", err)
	}
	return func() {}
}

// overwriteOrLog overwrites what another node has erased.
func (f *File) overwriteOrLog() {
	if err := f.overwriteNow(); err != nil && f.options.Logger != nil {
		f.options.Logger.Error("a subject was erased, but old bytes may be left in the file of records; the next start tries again", "error", err)
	}
}

// replaced puts another file in force, which tx reads.
func (f *File) replaced(tx *bolt.Tx) (publish func(), err error) {
	if err := dbfile.Check(tx, buckets()); err != nil {
		return nil, f.opening(err)
	}
	next, err := f.loadMemory(tx)
	if err != nil {
		return nil, err
	}
	rules, plans := f.rulesOrLog(f.prepareAllRules(tx)), f.rulesOrLog(f.preparePlans(tx, nil))
	head := trail.Last(tx)
	return func() {
		rules()
		plans()
		f.memory.Store(next)
		f.head.Store(&head)
		f.subjects.Clear()
		f.keys.Clear()
	}, nil
}
