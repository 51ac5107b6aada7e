package replication

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
)

var (
	a, b    = []byte("a"), []byte("b")
	buckets = [][]byte{a, b}
)

func open(t *testing.T, name string) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(filepath.Join(t.TempDir(), name), 0o600, nil)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	testkit.Must(t, db.Update(func(tx *bolt.Tx) error {
		for _, name := range append(buckets, []byte("own")) {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	}))
	return db
}

func content(t *testing.T, db *bolt.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	testkit.Must(t, db.View(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			c := tx.Bucket(name).Cursor()
			for key, value := c.First(); key != nil; key, value = c.Next() {
				all[string(WriteKey(name, key))] = string(value)
			}
		}
		return nil
	}))
	return all
}

// What a transaction writes in shared buckets, another copy writes too; what it writes in its own
// buckets stays there.
func TestCapture(t *testing.T) {
	one, two := open(t, "one"), open(t, "two")
	change := func(do func(tx *Tx) error) (writes []Write) {
		t.Helper()
		testkit.Must(t, one.Update(func(btx *bolt.Tx) error {
			tx := &Tx{Tx: btx}
			if err := do(tx); err != nil {
				return err
			}
			writes, _ = tx.Written()
			return nil
		}))
		data := Encode(writes, false)
		decoded, _, err := Decode(data)
		testkit.Must(t, err)
		testkit.Must(t, two.Update(func(tx *bolt.Tx) error { return Replay(tx, buckets, decoded) }))
		if want, got := content(t, one), content(t, two); !maps.Equal(want, got) {
			t.Errorf("%q, want %q", got, want)
		}
		return writes
	}
	writes := change(func(tx *Tx) error {
		value := []byte("1")
		err := errors.Join(tx.Bucket(a).Put([]byte("k\x00l"), value), tx.Bucket(b).Put([]byte("k"), nil), tx.Bucket(a).Put([]byte("gone"), value))
		own := tx.Tx.Bucket([]byte("own")).Put([]byte("k"), value)
		return errors.Join(err, own, tx.Bucket(a).Delete([]byte("gone")), tx.Bucket(a).Delete([]byte("never")))
	})
	if len(writes) != 4 {
		t.Errorf("%d writes: %v", len(writes), writes)
	}
	change(func(tx *Tx) error {
		if tx.Bucket([]byte("none")) != nil || string(tx.Bucket(a).Get([]byte("k\x00l"))) != "1" {
			t.Error("it reads something else")
		}
		return errors.Join(tx.Bucket(a).Delete([]byte("k\x00l")), tx.Bucket(b).Put([]byte("k"), []byte("2")))
	})
	err := two.Update(func(tx *bolt.Tx) error {
		return Replay(tx, buckets, []Write{{Key: WriteKey([]byte("own"), []byte("k")), Value: []byte("2")}})
	})
	if !errors.Is(err, ErrLater) {
		t.Errorf("a write to another bucket: %v", err)
	}
}
