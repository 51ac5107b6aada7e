package replication

import (
	"bytes"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
)

func openHistory(t *testing.T) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "copy.db"), 0o600, &bolt.Options{NoSync: true})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	testkit.Must(t, db.Update(func(tx *bolt.Tx) error { return prepare(tx, nil) }))
	return db
}

// add adds an entry of some bytes to the history.
func add(t *testing.T, tx *bolt.Tx, size int, forget bool) Entry {
	t.Helper()
	e := headOf(tx).Next(Encode([]Write{{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), size)}}, forget))
	testkit.Must(t, keep(tx, &e))
	return e
}

func kept(tx *bolt.Tx) (count int) {
	c := tx.Bucket(historyBucket).Cursor()
	for name, _ := c.First(); name != nil; name, _ = c.Next() {
		count++
	}
	return count
}

// The history keeps a bounded number of entries, and of bytes.
func TestHistoryBounds(t *testing.T) {
	testkit.Must(t, openHistory(t).Update(func(tx *bolt.Tx) error {
		for range maxEntries + 10 {
			add(t, tx, 1, false)
		}
		if got := kept(tx); got != maxEntries {
			t.Errorf("%d entries", got)
		}
		if _, ok := entryAt(tx, 10); ok || !contains(tx, headOf(tx)) || !contains(tx, Head{}) {
			t.Error("an old entry is there, or the head is not")
		}
		return nil
	}))
	testkit.Must(t, openHistory(t).Update(func(tx *bolt.Tx) error {
		for range 20 {
			add(t, tx, 4<<20, false)
		}
		if got := kept(tx); got != 15 { // a little less than 64 MiB
			t.Errorf("%d entries of 4 MiB", got)
		}
		return nil
	}))
}

// An erasure drops the data of all entries before it, and keeps their hashes. A second entry drops its
// own data too.
func TestHistoryForgets(t *testing.T) {
	testkit.Must(t, openHistory(t).Update(func(tx *bolt.Tx) error {
		var entries []Entry
		for range 5 {
			entries = append(entries, add(t, tx, 100, false))
		}
		entries = append(entries, add(t, tx, 100, true))
		for i, want := range entries {
			got, ok := entryAt(tx, want.Number)
			if !ok || got.Hash != want.Hash || (got.Data != nil) != (i == 5) || !contains(tx, want.Head()) {
				t.Errorf("entry %d: %v, %v", want.Number, got, ok)
			}
		}
		if toForget(tx).IsZero() {
			t.Error("the erasure itself need not be forgotten")
		}
		last := headOf(tx).Next(Encode(nil, true))
		testkit.Must(t, keep(tx, &last))
		if got, _ := entryAt(tx, 6); got.Data != nil || !toForget(tx).IsZero() || headOf(tx) != last.Head() {
			t.Errorf("%v, %v", got, toForget(tx))
		}
		return nil
	}))
}

// Places of another history are not in this one. A copy that is changed alone has none.
func TestHistoryContains(t *testing.T) {
	testkit.Must(t, openHistory(t).Update(func(tx *bolt.Tx) error {
		one := add(t, tx, 1, false)
		two := add(t, tx, 2, false)
		for _, h := range []Head{{Number: 1, Hash: two.Hash}, {Number: 2, Hash: one.Hash}, {Number: 3}} {
			if contains(tx, h) {
				t.Errorf("it contains %v", h)
			}
		}
		testkit.Must(t, dropHistory(tx))
		if headOf(tx) != (Head{}) || contains(tx, one.Head()) {
			t.Error("the history is left")
		}
		return dropHistory(tx)
	}))
}
