package dbfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
)

// A file that was cut at any page is refused as damaged. bbolt alone panics where its list of free pages is
// missing.
func TestOpenCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	buckets := [][]byte{About, []byte("values")}
	db, err := Open(path, buckets)
	testkit.Must(t, err)
	for i := range 4 { // the first pages are free then, and the list of free pages is at the end
		testkit.Must(t, db.Update(func(tx *bolt.Tx) error {
			return tx.Bucket(buckets[1]).Put([]byte{byte(i)}, make([]byte, 20_000))
		}))
	}
	testkit.Must(t, db.Close())
	content, err := os.ReadFile(path)
	testkit.Must(t, err)
	refused := 0
	for n := 4096; n < len(content); n += 4096 {
		testkit.Must(t, os.WriteFile(path, content[:n], 0o600))
		db, err := Open(path, buckets)
		if err == nil {
			testkit.Must(t, db.Close())
			continue
		}
		refused++
		if fault, ok := errors.AsType[*Fault](err); !ok || !errors.Is(err, ErrDamaged) || fault.Hint == "" {
			t.Errorf("%d of %d bytes: %v", n, len(content), err)
		}
	}
	if refused == 0 {
		t.Error("no cut was noticed")
	}
}
