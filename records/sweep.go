package records

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"stint/records/dbfile"
	"stint/records/replication"
)

const (
	// endedFor is how long an ended override, ban, API key or grant is kept, so that operators still find it.
	endedFor = 7 * 24 * time.Hour

	// sweepMost is how many records a change looks at to find ended ones, at least. It looks at two for
	// each edit, so that at most half of the records are ended ones that could be deleted.
	sweepMost = 100
)

// keptSince returns the time before which entries of the audit trail are dropped.
func (f *File) keptSince(now time.Time) time.Time {
	return f.copy.SafeTime(now).Add(-cmp.Or(f.options.AuditFor, DefaultAuditFor))
}

// endingKinds are the kinds of records that can end.
var endingKinds = []Kind{Overrides, Bans, APIKeys, Grants}

// sweep deletes records that ended long ago, and returns these edits. The audit trail has no entries of
// them: it has the end of each record since that was written. sweep goes on where the last change stopped,
// and looks at a limited number of records.
func (f *File) sweep(tx *replication.Tx, most int, now time.Time) (edits []Edit, err error) {
	about := tx.Bucket(dbfile.About)
	kind, name, _ := bytes.Cut(about.Get(sweepKey), []byte(separator))
	at := max(0, slices.Index(endingKinds, Kind(kind)))
	from := bytes.Clone(name)
	for range endingKinds {
		kind := endingKinds[at]
		c := tx.Bucket(bucketOf(kind)).Cursor()
		name, value := c.Seek(from)
		for ; name != nil && most > 0; name, value = c.Next() {
			most--
			v, err := decode[stored[struct{ Until time.Time }]](f, name, value)
			// Whoever reads a damaged record gets the error; other records can still be changed.
			if until := v.Record.Until; err == nil && !until.IsZero() && !until.Add(endedFor).After(now) {
				edits = append(edits, Edit{Delete: ID{kind, string(name)}})
			}
		}
		if from = bytes.Clone(name); name != nil {
			break
		}
		at = (at + 1) % len(endingKinds)
	}
	for i := range edits {
		id := edits[i].Delete
		if err := tx.Bucket(bucketOf(id.Kind)).Delete([]byte(id.Name)); err != nil {
			return nil, err
		}
	}
	return edits, about.Put(sweepKey, append([]byte(string(endingKinds[at])+separator), from...))
}

// forgetSwept erases a subject from the place where sweep stopped: it begins that kind of records again.
func forgetSwept(tx *replication.Tx, subject string) error {
	about := tx.Bucket(dbfile.About)
	kind, name, _ := bytes.Cut(about.Get(sweepKey), []byte(separator))
	if !bytes.Contains(name, []byte(subject)) {
		return nil
	}
	return about.Put(sweepKey, append(bytes.Clone(kind), separator...))
}
