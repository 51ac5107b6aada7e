package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/gateway/queue"
	"stint/internal/testkit"
	"stint/records/dbfile"
)

// A claim that the disk refuses is an error and no claim.
func TestClaimNotStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue")
	s, err := Open(path)
	testkit.Must(t, err)
	entry := &queue.Entry{ID: queue.NewID(), Line: "a", Rule: "r", State: queue.Waiting, At: time.Now(), Made: time.Now(), Keep: time.Hour, Data: []byte("x")}
	_, err = s.Put(t.Context(), entry, queue.Bounds{Places: 1, Bytes: 1 << 20})
	testkit.Must(t, errors.Join(err, s.Close()))

	readOnly := func(name string, _ int, _ fs.FileMode) (*os.File, error) { return os.Open(name) }
	s.db, err = bolt.Open(path, 0o600, &bolt.Options{OpenFile: readOnly})
	testkit.Must(t, err)
	claimed, _, err := s.Claim(t.Context(), "one", time.Minute)
	if fault, ok := errors.AsType[*dbfile.Fault](err); claimed != nil || !ok {
		t.Errorf("claimed %+v, %v, want a fault: %v", claimed, err, fault)
	}
	testkit.Must(t, s.db.Close())
	claimed, _, err = openFor(t, path).Claim(t.Context(), "one", time.Minute)
	if testkit.Must(t, err); claimed == nil || claimed.ID != entry.ID {
		t.Errorf("claimed %+v once the disk takes it", claimed)
	}
}
