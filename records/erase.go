package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/text"
	"stint/records/dbfile"
	"stint/records/replication"
	"stint/records/trail"
)

// Erased is what Erase erased.
type Erased struct {
	Outcome
	Records int // records of the subject that were deleted
	Entries int // entries of the audit trail whose texts were erased
}

// Erase deletes the records of a subject: its own, its overrides, its grants, its bans and its API keys. It erases
// the texts of all entries of the audit trail that are about the subject, and adds one that does not
// name it. The texts of saved outcomes that name the subject are erased too, and of the
// idempotency keys of changes of it only hashes are kept; an outcome whose key contains its name is forgotten. Then Erase overwrites what the file no longer uses,
// so that nothing of the subject is left in it, nor of other records that were deleted earlier. Nodes
// that share the records do the same within some seconds. If they cannot share all of it at once, it is
// erased in several changes, each with an entry.
//
// Not erased are overrides with a pattern that matches the subject, and texts of other records that
// mention it. Backups, snapshots and blocks that a disk keeps by itself are out of reach.
//
// The subject is an entry such as user=42, or a network or address as in bans. If nothing is kept of it,
// the error wraps [ErrMissing].
func (f *File) Erase(ctx context.Context, subject string, by Actor, now time.Time) (Erased, error) {
	if err := ctx.Err(); err != nil {
		return Erased{}, err
	}
	name, err := checkErasable(subject)
	if err == nil {
		err = checkReason("erase", by, "")
	}
	if err != nil {
		return Erased{}, err
	}
	all, most := Erased{}, math.MaxInt
	for more := true; more; {
		e, err := f.erasePart(ctx, name, most, by, now)
		switch n := e.Records + e.Entries; {
		case errors.Is(err, ErrTooLarge) && n > 1:
			most = n / 2
			continue
		case errors.Is(err, ErrMissing) && all.Revision == 0: // but the file may still have bytes of what was deleted or dropped
			return Erased{}, errors.Join(err, f.overwrite())
		case errors.Is(err, ErrMissing): // another caller erased the rest
		case err != nil:
			return all, afterPart(err, all)
		default:
			all = Erased{e.Outcome, all.Records + e.Records, all.Entries + e.Entries}
		}
		more = e.more
	}
	return all, f.overwrite()
}

// erasePart erases at most so many records and entries of a subject, in one change. If there is more, a
// change of all of it is too large for nodes to share.
func (f *File) erasePart(ctx context.Context, name string, most int, by Actor, now time.Time) (e eraser, err error) {
	var next *memory
	err = f.update(ctx, func(tx *replication.Tx) (err error) {
		e = eraser{file: f, name: name, now: now, tx: tx, most: most}
		if err := e.erase(by); err != nil {
			return err
		}
		next, err = f.memory.Load().after(e.edits, e.Revision)
		return err
	}, func() { f.publish(next, e.edits, e.head) })
	return e, err
}

// afterPart returns the error of an erasure of which some parts were made.
func afterPart(err error, erased Erased) error {
	wrong, ok := errors.AsType[*Error](err)
	if !ok || erased.Revision == 0 {
		return err
	}
	part := *wrong
	part.Problem = fmt.Sprintf("%d records and %d entries were erased, then: %s", erased.Records, erased.Entries, wrong.Problem)
	part.Hint += "; then erase it again, which continues where this one ended"
	return &part
}

// checkErasable returns the name of a subject or a network as in records.
func checkErasable(subject string) (string, error) {
	if network, err := ParseNetwork(subject); err == nil {
		return network.String(), nil
	}
	if fault := (ID{Kind: "erase"}).checkSubject(subject); fault != nil {
		return "", fault
	}
	return subject, nil
}

// eraser erases a subject in one transaction.
type eraser struct {
	file *File
	tx   *replication.Tx
	name string // of the subject
	now  time.Time
	most int // the most records and entries to erase

	more bool // there are more

	edits []Edit // that delete its records
	head  trail.Head
	Erased
}

func (e *eraser) erase(by Actor) error {
	var err error
	if e.edits, err = recordsOf(e.file, e.tx.Tx, e.name, func(id ID, _ []byte) (Edit, error) { return Edit{Delete: id}, nil }); err != nil {
		return err
	}
	if len(e.edits) > e.most {
		e.edits, e.more = e.edits[:e.most], true
	}
	for i := range e.edits {
		id := e.edits[i].Delete
		if err := e.tx.Bucket(bucketOf(id.Kind)).Delete([]byte(id.Name)); err != nil {
			return err
		}
	}
	e.Records = len(e.edits)
	var revisions []uint64
	if !e.more {
		if revisions, e.more, err = trail.EraseAbout(e.tx, e.name, e.most-e.Records); err != nil {
			return e.file.trailFault(err)
		}
		e.Entries = len(revisions)
	}
	forgotten, err := e.outcomes(revisions)
	if err != nil {
		return err
	}
	if e.Records+e.Entries+forgotten == 0 {
		return &Error{Where: "erase: " + text.Shorten(e.name), Problem: "nothing is kept of it", Hint: "check how its name is written; it may have been erased already", Err: ErrMissing}
	}
	if err := forgetSwept(e.tx, e.name); err != nil {
		return err
	}
	if e.Revision, err = dbfile.NextRevision(e.tx); err != nil {
		return err
	}
	w := auditOf(e.tx, e.Revision, by, e.now)
	if err := w.Write(trail.Entry{Action: trail.Erase, Kind: string(Subjects), Texts: trail.Texts{Object: e.name}}); err != nil {
		return err
	}
	if e.head, err = w.End(e.file.keptSince(e.now)); err != nil {
		return err
	}
	e.tx.Forget()
	return markErased(e.tx.Tx)
}

// recordsOf calls do for each record of a subject or network, and returns the results.
func recordsOf[T any](f *File, tx *bolt.Tx, name string, do func(id ID, value []byte) (T, error)) (results []T, err error) {
	add := func(kind Kind, id, value []byte) error {
		result, err := do(ID{kind, string(id)}, value)
		results = append(results, result)
		return err
	}
	for _, kind := range []Kind{Subjects, Bans} {
		if value := tx.Bucket(bucketOf(kind)).Get([]byte(name)); value != nil && err == nil {
			err = add(kind, []byte(name), value)
		}
	}
	for _, kind := range []Kind{Overrides, Grants} {
		if err == nil {
			err = eachOf(tx, kind, name, func(id, value []byte) error { return add(kind, id, value) })
		}
	}
	if err != nil {
		return results, err
	}
	written, err := json.Marshal(name)
	c := tx.Bucket(bucketOf(APIKeys)).Cursor()
	for id, value := c.First(); id != nil && err == nil; id, value = c.Next() {
		if !bytes.Contains(value, written) {
			continue
		}
		var k stored[APIKey]
		if k, err = decode[stored[APIKey]](f, id, value); err == nil && k.Record.Subject == name {
			err = add(APIKeys, id, value)
		}
	}
	return results, err
}

// outcomes erases the subject from saved outcomes, also from those of changes of some revisions, and returns
// their number.
func (e *eraser) outcomes(revisions []uint64) (int, error) {
	changes := make(map[uint64]bool, len(revisions))
	for _, revision := range revisions {
		changes[revision] = true
	}
	texts := []string{e.name, text.Shorten(e.name)}
	for i := range e.edits {
		texts = append(texts, e.edits[i].Delete.String())
	}
	names := func(text string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(text, s) })
	}
	instead := dbfile.Refusal{Where: "change", Problem: "refused; the reason was erased with its subject", Hint: "read the records again, and send a new change if it still makes sense"}
	n, err := dbfile.EraseOutcomes(e.tx, names, changes, instead)
	return n, e.file.unreadable(err)
}

// markErased makes Open call overwrite if the process is killed before that has ended. Each copy of
// the file does so by itself.
func markErased(tx *bolt.Tx) error { return tx.Bucket(dbfile.About).Put(overwriteKey, []byte{1}) }

// overwrite overwrites what the file no longer uses. Open repeats it if the process is killed before
// this has ended.
func (f *File) overwrite() error {
	return f.copy.Exclusive(f.overwriteNow)
}

// overwriteNow is overwrite while the caller keeps others from changing the file.
func (f *File) overwriteNow() error {
	err := f.guard(func() error { return dbfile.OverwriteFree(f.copy.DB(), f.path, f.copy.WaitForReaders) })
	if err == nil {
		err = f.copy.UpdateLocal(func(tx *bolt.Tx) error { return tx.Bucket(dbfile.About).Delete(overwriteKey) })
	}
	if err != nil {
		return f.fault("cannot overwrite what was erased: "+err.Error(), "check the disk and start again; until then, old bytes may be left in the file", err)
	}
	return nil
}

// Export returns all that is kept of a subject: its records, and the entries of the audit trail that
// are about it, oldest first. The last entry may come with an [*Error]. The subject is one that Erase
// accepts.
func (f *File) Export(subject string) (records []Entry, entries iter.Seq2[trail.Entry, error], err error) {
	name, err := checkErasable(subject)
	if err != nil {
		return nil, nil, err
	}
	err = f.view(func(tx *bolt.Tx) (err error) {
		records, err = recordsOf(f, tx, name, func(id ID, value []byte) (Entry, error) { return f.decodeEntry(id.Kind, []byte(id.Name), value) })
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return records, func(yield func(trail.Entry, error) bool) {
		for e, err := range f.selected(1, trail.Mentions(name)) {
			if (err != nil || e.About(name)) && !yield(e, f.trailFault(err)) {
				return
			}
		}
	}, nil
}
