package dbfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
)

// A new file is there only when it is complete. What is left of one whose process was killed is removed, and
// nothing else.
func TestOpenNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "records.db")
	for _, name := range []string{"records.db.new17", "records.db.new", "records.db.newest", "records.db.new1.bak"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for range 2 {
		db, err := Open(path, [][]byte{About, []byte("more")})
		testkit.Must(t, err)
		testkit.Must(t, db.Close())
	}
	list, err := os.ReadDir(dir)
	testkit.Must(t, err)
	var names []string
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	if want := []string{"records.db", "records.db.new", "records.db.new1.bak", "records.db.newest"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	testkit.Must(t, os.Truncate(path, 0))
	if _, err := Open(path, [][]byte{About}); err == nil {
		t.Error("an emptied file is taken for a new one")
	}
}

// A file that an earlier version wrote gets the parts that it lacks, and keeps what it has.
func TestOpenEarlier(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	db, err := Open(path, [][]byte{About})
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx *bolt.Tx) error { return tx.Bucket(About).Put([]byte("kept"), []byte("yes")) }))
	testkit.Must(t, db.Close())
	for range 2 {
		db, err := Open(path, [][]byte{About, []byte(later[0])})
		testkit.Must(t, err)
		testkit.Must(t, db.View(func(tx *bolt.Tx) error {
			if tx.Bucket([]byte(later[0])) == nil || string(tx.Bucket(About).Get([]byte("kept"))) != "yes" {
				t.Error("the file lacks a part")
			}
			return nil
		}))
		testkit.Must(t, db.Close())
	}
}
