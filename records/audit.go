package records

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/trail"
)

// Limits is the kind of what a reset resets. There are no records of this kind, only entries of the
// audit trail. Its name is the rule, a space and the key, such as "api/user user=42".
const Limits Kind = "limit"

// Event is what is written to the audit trail and changes no record, such as a reset.
type Event struct {
	By       Actor
	Action   trail.Action
	Object   ID              // what was changed
	Subjects []string        // whom it is about, such as user=42; erasing one of them erases the texts of the entry
	Before   json.RawMessage // nil if unknown
	After    json.RawMessage // nil if unknown
	Why      string
}

// maxEvent is the most bytes of an object and its subjects, and of the JSON before and after.
const maxEvent = 64 << 10

func (e *Event) check() error {
	size := len(e.Object.Name)
	for _, subject := range e.Subjects {
		size += len(subject)
	}
	switch {
	case e.Object.Kind == "" || len(e.Object.Kind) > MaxName || e.Action == "" || len(e.Action) > MaxName || !printable(string(e.Object.Kind)+string(e.Action)):
		return &Error{Where: "event: action", Problem: "there is no action, or no kind of object", Hint: "use one word for each"}
	case size > maxEvent, len(e.Before)+len(e.After) > maxEvent:
		return &Error{Where: "event: object", Problem: fmt.Sprintf("more than %d bytes", maxEvent), Hint: "name fewer objects in one event"}
	case e.Before != nil && !json.Valid(e.Before), e.After != nil && !json.Valid(e.After):
		return &Error{Where: "event: before, after", Problem: "not JSON", Hint: "write null if it is unknown"}
	}
	return checkReason("event", e.By, e.Why)
}

// checkReason checks who makes a change, and why.
func checkReason(where string, by Actor, why string) error {
	for _, name := range []string{by.Name, by.From} {
		if len(name) > MaxSubject {
			return &Error{Where: where + ": by", Problem: fmt.Sprintf("%d bytes, at most %d", len(name), MaxSubject), Hint: "use a shorter name for the token or the certificate"}
		}
	}
	if fault := (ID{}).checkText("why", why); fault != nil {
		return &Error{Where: where + ": why", Problem: fault.Problem, Hint: fault.Hint}
	}
	return nil
}

// Note writes one entry to the audit trail. When it returns without an error, the entry is on disk.
func (f *File) Note(ctx context.Context, e Event, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var head trail.Head
	err := f.update(func(tx *bolt.Tx) (err error) {
		w := newTrailWriter(tx, revisionOf(tx), e.By, now)
		texts := trail.Texts{Object: e.Object.Name, Before: e.Before, After: e.After, Why: e.Why, Subjects: e.Subjects}
		if err := w.write(trail.Entry{Action: e.Action, Kind: string(e.Object.Kind), Texts: texts}); err != nil {
			return err
		}
		head, err = w.end(f.options.auditFor())
		return err
	})
	if err == nil {
		f.head.Store(&head)
	}
	return err
}

// trailWriter writes entries to the audit trail in the transaction of their change.
type trailWriter struct {
	tx      *bolt.Tx
	entry   trail.Entry // what all entries of the change have in common
	head    trail.Head
	written int
}

func newTrailWriter(tx *bolt.Tx, revision uint64, by Actor, now time.Time) *trailWriter {
	return &trailWriter{tx: tx, entry: trail.Entry{Revision: revision, Time: now, Actor: by.Name, From: by.From}, head: placeOf(tx, headKey)}
}

// write adds an entry, whose Action, Kind, Until and Texts are set. The texts of an erasure are not
// stored.
func (w *trailWriter) write(e trail.Entry) error {
	e.Number, e.Revision, e.Time, e.Actor, e.From = w.head.Number+1, w.entry.Revision, w.entry.Time, w.entry.Actor, w.entry.From
	e = trail.Seal(e, w.head.Hash)
	if e.Action == trail.Erase {
		e = e.EraseTexts()
	}
	name := numberKey(e.Number)
	chain, texts := w.tx.Bucket(trailBucket), w.tx.Bucket(textsBucket)
	chain.FillPercent, texts.FillPercent = 1, 0.95 // entries are added at the end only; texts shrink when they are erased
	if err := chain.Put(name, e.Chain()); err != nil {
		return err
	}
	w.head = trail.Head{Number: e.Number, Hash: e.Hash}
	w.written++
	return texts.Put(name, e.Clear())
}

// dropMost is how many old entries a change drops at most; at least twice as many as it writes.
const dropMost = 100

// end completes the change: it stores the head of the chain, and drops entries that are older than age.
func (w *trailWriter) end(age time.Duration) (trail.Head, error) {
	if err := w.drop(w.entry.Time.Add(-age), max(dropMost, 2*w.written)); err != nil {
		return w.head, err
	}
	return w.head, putPlace(w.tx, headKey, w.head)
}

// drop drops at most a number of the entries that were written before a time, and stores the place from
// which the chain goes on.
func (w *trailWriter) drop(before time.Time, most int) error {
	chain, texts := w.tx.Bucket(trailBucket), w.tx.Bucket(textsBucket)
	start := placeOf(w.tx, startKey)
	var names [][]byte
	c := chain.Cursor()
	for name, value := c.First(); name != nil && len(names) < most; name, value = c.Next() {
		e, err := trail.Parse(value, texts.Get(name))
		if err != nil || !e.Time.Before(before) {
			break // Verify reports an entry with a fault
		}
		names = append(names, name)
		start = trail.Head{Number: e.Number, Hash: e.Hash}
	}
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if err := errors.Join(chain.Delete(name), texts.Delete(name)); err != nil {
			return err
		}
	}
	return putPlace(w.tx, startKey, start)
}

// placeOf reads a place in the chain: headKey or startKey.
func placeOf(tx *bolt.Tx, key []byte) (h trail.Head) {
	if value := tx.Bucket(aboutBucket).Get(key); len(value) == 8+len(h.Hash) {
		h.Number = binary.BigEndian.Uint64(value)
		copy(h.Hash[:], value[8:])
	}
	return h
}

func putPlace(tx *bolt.Tx, key []byte, h trail.Head) error {
	return tx.Bucket(aboutBucket).Put(key, append(numberKey(h.Number), h.Hash[:]...))
}

// numberKey returns a number as bytes in order.
func numberKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Head returns the number and the hash of the last entry of the audit trail; 0 and 64 zeros if there is
// none. Operators keep it elsewhere, so that Verify can find that later entries were cut off.
func (f *File) Head() (number uint64, hash string) {
	head := f.head.Load()
	return head.Number, head.Hash.String()
}

// Trail returns the entries of the audit trail from a number on, oldest first. It starts with the first
// entry that is kept if that is later. It reads in pages, so that a slow caller delays no change. The
// last element may be an [*Error].
func (f *File) Trail(from uint64) iter.Seq2[trail.Entry, error] {
	return func(yield func(trail.Entry, error) bool) {
		for e, err := range f.selected(from, nil) {
			if broken, ok := errors.AsType[*trail.Break](err); ok {
				err = f.damaged("audit trail: " + broken.Error())
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// selected is Trail for those entries whose stored texts has selects; all if has is nil. The last element
// may be a *trail.Break.
func (f *File) selected(from uint64, has func(texts []byte) bool) iter.Seq2[trail.Entry, error] {
	return func(yield func(trail.Entry, error) bool) {
		for more := true; more; {
			var entries []trail.Entry
			err := f.view(func(tx *bolt.Tx) (err error) {
				entries, more, err = trailPage(tx, &from, has)
				return err
			})
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(trail.Entry{}, err)
				return
			}
		}
	}
}

// trailPage reads entries from a number on, and sets the number to the next one. It reports whether
// there may be more.
func trailPage(tx *bolt.Tx, from *uint64, has func(texts []byte) bool) (entries []trail.Entry, more bool, err error) {
	texts := tx.Bucket(textsBucket)
	c := tx.Bucket(trailBucket).Cursor()
	read := 0
	for name, value := c.Seek(numberKey(*from)); name != nil; name, value = c.Next() {
		if read++; read > page {
			return entries, true, nil
		}
		number := binary.BigEndian.Uint64(name)
		*from = number + 1
		clear := texts.Get(name)
		if has != nil && !has(clear) {
			continue
		}
		e, err := trail.Parse(value, clear)
		if err != nil {
			return entries, false, &trail.Break{Number: number, Problem: err.Error()}
		}
		entries = append(entries, e)
	}
	return entries, false, nil
}

// Verify verifies the audit trail. It compares it with heads that were kept elsewhere. The first fault
// of the trail is in the report; the error is that of ctx, or an [*Error] about the file.
func (f *File) Verify(ctx context.Context, known ...trail.Head) (report trail.Report, err error) {
	for range 10 { // until no entry that is read is dropped because of its age
		var start, head, later trail.Head
		read := func(tx *bolt.Tx) error {
			start, head = placeOf(tx, startKey), placeOf(tx, headKey)
			return nil
		}
		if err := f.view(read); err != nil {
			return report, err
		}
		report, err = trail.Verify(start, f.trailUntil(ctx, start.Number+1), append(known[:len(known):len(known)], head)...)
		if err != nil || report.Break == nil {
			return report, err
		}
		later = start
		if err := f.view(read); err != nil {
			return report, err
		}
		if start == later {
			break
		}
	}
	return report, nil
}

// trailUntil returns the entries from a number on, until ctx ends.
func (f *File) trailUntil(ctx context.Context, from uint64) iter.Seq2[trail.Entry, error] {
	return func(yield func(trail.Entry, error) bool) {
		for e, err := range f.selected(from, nil) {
			if err == nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
