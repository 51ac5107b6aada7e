package file

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/gateway/queue"
	"stint/gateway/queue/queuetest"
	"stint/internal/testkit"
	"stint/records/dbfile"
)

// filled returns the contents of a file with some records, and their IDs.
func filled(t *testing.T) (content []byte, ids []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue")
	s, err := Open(path)
	testkit.Must(t, err)
	env := queuetest.Env{Storage: s.Queue(), Now: time.Now}
	for i := range 40 {
		e := env.Entry(string(rune('a'+i%7)), "r")
		e.Data = make([]byte, rand.IntN(20_000))
		e.Size = len(e.Data)
		_, err := s.Put(t.Context(), e, queue.Bounds{Places: 100, Bytes: 1 << 30})
		testkit.Must(t, err)
		ids = append(ids, e.ID)
	}
	testkit.Must(t, s.Close())
	content, err = os.ReadFile(path)
	testkit.Must(t, err)
	return content, ids
}

// A file that was cut at any byte has all records, or is refused with a reason and a hint.
func TestCut(t *testing.T) {
	content, ids := filled(t)
	path := filepath.Join(t.TempDir(), "queue")
	whole, refused := 0, 0
	cuts := []int{0, 1, 100, 4095, 4096, 8192, 8193, 16384, len(content) - 1, len(content)}
	for range 60 {
		cuts = append(cuts, rand.IntN(len(content)))
	}
	for _, n := range cuts {
		testkit.Must(t, os.WriteFile(path, content[:n], 0o600))
		s, err := Open(path)
		if err != nil {
			refused++
			if fault, ok := errors.AsType[*dbfile.Fault](err); !ok || !errors.Is(err, dbfile.ErrDamaged) || fault.Problem == "" || !strings.Contains(fault.Hint, "lost") {
				t.Errorf("%d of %d bytes: %v", n, len(content), err)
			}
			continue
		}
		for _, id := range ids {
			if _, err := s.Get(t.Context(), id); err != nil {
				t.Errorf("%d of %d bytes: record %s: %v", n, len(content), id, err)
			}
		}
		testkit.Must(t, s.Close())
		whole++
	}
	if whole == 0 || refused == 0 {
		t.Errorf("%d files opened, %d refused", whole, refused)
	}
}

// A changed byte in a request is noticed when it is read.
func TestChangedByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue")
	s := openFor(t, path)
	env := queuetest.Env{Storage: s.Queue(), Now: time.Now}
	e := env.Entry("a", "r")
	_, err := s.Put(t.Context(), e, queue.Bounds{Places: 1, Bytes: 1 << 20})
	testkit.Must(t, err)
	testkit.Must(t, s.db.Update(func(tx *bolt.Tx) error {
		value := append([]byte(nil), tx.Bucket(dataBucket).Get([]byte(e.ID))...)
		value[len(value)-1] ^= 1
		return tx.Bucket(dataBucket).Put([]byte(e.ID), value)
	}))
	if _, err := s.Get(t.Context(), e.ID); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("get: %v", err)
	}
	if _, _, err := s.Claim(t.Context(), "w", time.Second); err == nil {
		t.Error("claimed a damaged record")
	}
}

// Two processes cannot share a file, other files are refused, and a folder must exist.
func TestNotOpened(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "queue")
	openFor(t, path)
	_, err := Open(path)
	if fault, ok := errors.AsType[*dbfile.Fault](err); !ok || !InUse(err) || !strings.Contains(fault.Problem, "in use by another process") || !strings.Contains(fault.Hint, "redis://") {
		t.Errorf("a second process: %v", err)
	}
	other := filepath.Join(folder, "other")
	db, err := bolt.Open(other, 0o600, nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	text := filepath.Join(folder, "text")
	testkit.Must(t, os.WriteFile(text, []byte(strings.Repeat("no database\n", 1000)), 0o600))
	for path, want := range map[string]string{
		other: "none of a queue", text: "damaged", folder: "not a file", filepath.Join(folder, "none", "queue"): "folder does not exist",
	} {
		_, err := Open(path)
		fault, ok := errors.AsType[*dbfile.Fault](err)
		if !ok || !strings.Contains(fault.Problem, want) || fault.Hint == "" {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	left, err := filepath.Glob(filepath.Join(folder, "*.new*"))
	if len(left) > 0 || err != nil {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// Records are there after the file was closed.
func TestReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue")
	s, err := Open(path)
	testkit.Must(t, err)
	e := queuetest.Env{Storage: s.Queue(), Now: time.Now}.Entry("a", "r")
	_, err = s.Put(t.Context(), e, queue.Bounds{Places: 1, Bytes: 1 << 20})
	testkit.Must(t, err)
	testkit.Must(t, s.Close())
	if got, _, err := openFor(t, path).Claim(t.Context(), "w", time.Second); err != nil || got == nil || string(got.Data) != string(e.Data) {
		t.Errorf("claimed %+v, %v", got, err)
	}
}
