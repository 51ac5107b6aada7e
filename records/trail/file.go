package trail

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/replication"
)

// The buckets of the trail, and the keys in the last one.
var (
	chainBucket  = []byte("audit trail")  // chain parts by number
	textsBucket  = []byte("audit texts")  // what is stored beside them, by number
	placesBucket = []byte("audit places") // places in the chain
	startKey     = []byte("start")
	lastKey      = []byte("last")
)

// Buckets returns the names of the buckets of the trail. The caller creates them.
func Buckets() [][]byte { return [][]byte{chainBucket, textsBucket, placesBucket} }

// Writer writes the entries of one change in its transaction.
type Writer struct {
	tx      *replication.Tx
	common  Entry
	last    Head
	written int
}

// NewWriter returns a Writer. common has what all entries of the change have in common: Revision, Time,
// Actor and From.
func NewWriter(tx *replication.Tx, common Entry) *Writer {
	return &Writer{tx: tx, common: common, last: Last(tx.Tx)}
}

// Write adds an entry whose Action, Kind, Until and Texts are set. The texts of an erasure are not
// stored.
func (w *Writer) Write(e Entry) error {
	e.Number, e.Revision, e.Time, e.Actor, e.From = w.last.Number+1, w.common.Revision, w.common.Time, w.common.Actor, w.common.From
	e = Seal(e, w.last.Hash)
	if e.Action == Erase {
		e = e.EraseTexts()
	}
	name := numberKey(e.Number)
	chain, texts := w.tx.Bucket(chainBucket), w.tx.Bucket(textsBucket)
	chain.Grows()
	texts.Grows()
	if err := chain.Put(name, e.Chain()); err != nil {
		return err
	}
	w.last = Head{Number: e.Number, Hash: e.Hash}
	w.written++
	return texts.Put(name, e.Clear())
}

// dropMost is how many old entries a change drops at most; at least twice as many as it writes.
const dropMost = 100

// WriteImport writes the one entry of an import: how many records of a kind were put and deleted.
func (w *Writer) WriteImport(kind, object string, put, deleted int, why string) error {
	after, err := json.Marshal(struct {
		Put     int `json:"put"`
		Deleted int `json:"deleted"`
	}{put, deleted})
	if err != nil {
		return err
	}
	return w.Write(Entry{Action: Import, Kind: kind, Texts: Texts{Object: object, After: after, Why: why}})
}

// End completes the change: it stores the place of the last entry, and drops entries that were written
// before a time. It returns the place.
func (w *Writer) End(before time.Time) (Head, error) {
	if err := w.drop(before, max(dropMost, 2*w.written)); err != nil {
		return w.last, err
	}
	return w.last, putPlace(w.tx, lastKey, w.last)
}

// drop drops at most a number of the entries that were written before a time, and stores the place from
// which the chain goes on.
func (w *Writer) drop(before time.Time, most int) error {
	chain, texts := w.tx.Bucket(chainBucket), w.tx.Bucket(textsBucket)
	start := Start(w.tx.Tx)
	var names [][]byte
	c := chain.Cursor()
	for name, value := c.First(); name != nil && len(names) < most; name, value = c.Next() {
		e, err := Parse(value, texts.Get(name))
		if err != nil || !e.Time.Before(before) {
			break // Verify reports an entry with a fault
		}
		names = append(names, name)
		start = Head{Number: e.Number, Hash: e.Hash}
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

// Start returns the place before the oldest entry: zero if no entry was dropped.
func Start(tx *bolt.Tx) Head { return placeOf(tx, startKey) }

// Last returns the place of the last entry: zero if there was none.
func Last(tx *bolt.Tx) Head { return placeOf(tx, lastKey) }

// placeOf reads a place in the chain.
func placeOf(tx *bolt.Tx, key []byte) (h Head) {
	if value := tx.Bucket(placesBucket).Get(key); len(value) == 8+len(h.Hash) {
		h.Number = binary.BigEndian.Uint64(value)
		copy(h.Hash[:], value[8:])
	}
	return h
}

func putPlace(tx *replication.Tx, key []byte, h Head) error {
	return tx.Bucket(placesBucket).Put(key, append(numberKey(h.Number), h.Hash[:]...))
}

// numberKey returns a number as bytes in order.
func numberKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// page is how many entries Page looks at.
const page = 500

// Page reads entries from a number on, and sets the number to the next one. It reports whether
// there may be more. If has is not
// nil, Page reads only those entries whose stored texts it selects. An entry with a fault is a
// *Break.
func Page(tx *bolt.Tx, from *uint64, has func(texts []byte) bool) (entries []Entry, more bool, err error) {
	texts := tx.Bucket(textsBucket)
	c := tx.Bucket(chainBucket).Cursor()
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
		e, err := parse(number, value, clear)
		if err != nil {
			return entries, false, err
		}
		entries = append(entries, e)
	}
	return entries, false, nil
}

// parse reads an entry. Its error is a *Break.
func parse(number uint64, chain, texts []byte) (Entry, error) {
	e, err := Parse(chain, texts)
	if err != nil {
		return e, &Break{Number: number, Problem: err.Error()}
	}
	return e, nil
}

// Mentions returns a function that selects the stored texts which contain a text.
func Mentions(text string) func(texts []byte) bool {
	return func(texts []byte) bool { return bytes.Contains(texts, []byte(text)) }
}

// EraseAbout erases the texts of entries that are about a subject, the oldest first and at most so many. It
// returns the revisions of these entries, and whether there are more. An entry with a fault that may be
// about it is a *trail.Break.
func EraseAbout(tx *replication.Tx, subject string, most int) (revisions []uint64, left bool, err error) {
	texts := tx.Bucket(textsBucket)
	for from, more := uint64(0), true; more; {
		var entries []Entry
		if entries, more, err = Page(tx.Tx, &from, Mentions(subject)); err != nil {
			return revisions, false, err
		}
		for _, e := range entries {
			if !e.About(subject) {
				continue
			}
			if len(revisions) == most {
				return revisions, true, nil
			}
			e = e.EraseTexts()
			if err := texts.Put(numberKey(e.Number), e.Clear()); err != nil {
				return revisions, false, err
			}
			revisions = append(revisions, e.Revision)
		}
	}
	return revisions, false, nil
}

// View reads the file in one transaction.
type View func(read func(*bolt.Tx) error) error

// All returns the entries from a number on, oldest first. If has is not nil, it returns only those whose
// stored texts it selects. It reads in pages, so that a slow caller delays no change. The last element may
// be a *Break, or an error of view.
func All(view View, from uint64, has func(texts []byte) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for more := true; more; {
			var entries []Entry
			err := view(func(tx *bolt.Tx) (err error) {
				entries, more, err = Page(tx, &from, has)
				return err
			})
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
		}
	}
}

// VerifyFile verifies the trail of a file, and compares it with heads that were kept elsewhere. The first
// fault of the trail is in the report; the error is that of ctx or of view.
func VerifyFile(ctx context.Context, view View, known ...Head) (report Report, err error) {
	for range 10 { // until no entry that is read is dropped because of its age
		var start, head, later Head
		read := func(tx *bolt.Tx) error {
			start, head = Start(tx), Last(tx)
			return nil
		}
		if err := view(read); err != nil {
			return report, err
		}
		report, err = Verify(start, allUntil(ctx, view, start.Number+1), append(slices.Clip(known), head)...)
		if err != nil || report.Break == nil {
			return report, err
		}
		later = start
		if err := view(read); err != nil {
			return report, err
		}
		if start == later {
			break
		}
	}
	return report, nil
}

// allUntil returns the entries from a number on, until ctx ends.
func allUntil(ctx context.Context, view View, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range All(view, from, nil) {
			if err == nil && ctx.Err() != nil {
				err = ctx.Err()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
