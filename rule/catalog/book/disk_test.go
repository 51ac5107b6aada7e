package book

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
	"stint/rule/catalog"
)

// sampleOnDisk returns a rule whose fields all depend on n.
func sampleOnDisk(id string, n int) catalog.Rule {
	return catalog.Rule{
		ID: id, UID: fmt.Sprint("user-", n), URL: "GET /v1/orders/{id}", Time: "minute", Requests: uint64(n),
		Algorithm: "token_bucket", Burst: uint64(2 * n), Domain: "shop", Policy: strings.Repeat("p", n%200),
	}
}

func each(rules ...catalog.Rule) iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		for _, r := range rules {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func openDisk(t *testing.T, path string) *Disk {
	t.Helper()
	s, err := OpenDisk(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// all returns the rules of the store.
func all(t *testing.T, s *Disk) map[string]catalog.Rule {
	t.Helper()
	rules := map[string]catalog.Rule{}
	for r, err := range s.Rules() {
		if err != nil {
			t.Fatal(err)
		}
		rules[r.ID] = r
	}
	return rules
}

func gather(t *testing.T, rules ...catalog.Rule) *Gathered {
	t.Helper()
	i, err := Gather(each(rules...))
	testkit.Must(t, err)
	return i
}

func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	s := openDisk(t, path)
	if got := all(t, s); len(got) != 0 {
		t.Fatalf("a new store holds %v", got)
	}
	want := map[string]catalog.Rule{}
	check := func(after string) {
		t.Helper()
		if got := all(t, s); !reflect.DeepEqual(got, want) {
			t.Fatalf("after %s it holds %v, want %v", after, got, want)
		}
		testkit.Must(t, s.Close())
		s = openDisk(t, path)
		if got := all(t, s); !reflect.DeepEqual(got, want) {
			t.Fatalf("opened again after %s it holds %v, want %v", after, got, want)
		}
	}
	for n, id := range []string{"b", "a", "c d", "b", "\u00e4"} {
		testkit.Must(t, s.Put(sampleOnDisk(id, n)))
		want[id] = sampleOnDisk(id, n)
	}
	check("Put")
	testkit.Must(t, s.Delete("b"))
	testkit.Must(t, s.Delete("nobody"))
	delete(want, "b")
	check("Delete")
	testkit.Must(t, s.Merge(gather(t, sampleOnDisk("z", 1), sampleOnDisk("a", 9))))
	want["z"], want["a"] = sampleOnDisk("z", 1), sampleOnDisk("a", 9)
	check("Merge")
	testkit.Must(t, s.Replace(gather(t, sampleOnDisk("y", 1), sampleOnDisk("x", 2))))
	want = map[string]catalog.Rule{"x": sampleOnDisk("x", 2), "y": sampleOnDisk("y", 1)}
	check("Replace")
	testkit.Must(t, s.Replace(gather(t)))
	want = map[string]catalog.Rule{}
	check("Replace by nothing")
}

func TestMerged(t *testing.T) {
	s := openDisk(t, filepath.Join(t.TempDir(), "rules.db"))
	testkit.Must(t, s.Replace(gather(t, sampleOnDisk("b", 1), sampleOnDisk("d", 1), sampleOnDisk("f", 1))))
	for _, ids := range []string{"", "a", "b", "c d", "f g", "a b c d e f g", "g h"} {
		var rules []catalog.Rule
		want := all(t, s)
		for id := range strings.FieldsSeq(ids) {
			rules = append(rules, sampleOnDisk(id, 2))
			want[id] = sampleOnDisk(id, 2)
		}
		got, last := map[string]catalog.Rule{}, ""
		for r, err := range s.Merged(gather(t, rules...)) {
			testkit.Must(t, err)
			if r.ID <= last {
				t.Errorf("with %q: %q comes after %q", ids, r.ID, last)
			}
			got[r.ID], last = r, r.ID
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("with %q: %v, want %v", ids, got, want)
		}
	}
}

// Every fault of a file or its folder is reported with a hint when the file is opened or read.
func TestDiskFaults(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	s := openDisk(t, good)
	var rules []catalog.Rule
	for n := range 2000 {
		rules = append(rules, sampleOnDisk(fmt.Sprint("r", n), n))
	}
	testkit.Must(t, s.Replace(gather(t, rules...)))
	testkit.Must(t, s.Close())
	data, err := os.ReadFile(good)
	testkit.Must(t, err)
	put := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	other := filepath.Join(dir, "other.db")
	stranger, err := bolt.Open(other, 0o600, nil)
	testkit.Must(t, err)
	testkit.Must(t, stranger.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err }))
	testkit.Must(t, stranger.Close())
	flipped := append([]byte(nil), data...)
	at := strings.LastIndex(string(flipped), "/v1/orders")
	flipped[at+4] ^= 1
	held := filepath.Join(dir, "held.db")
	openDisk(t, held)
	for _, tt := range []struct{ path, want, hint string }{
		{dir, "not a file", "a file of its own"},
		{filepath.Join(dir, "no", "where.db"), "its folder is not there", "make the folder"},
		{put("text", []byte(strings.Repeat("id,uid,url\n", 5000))), "damaged: no file of rules", "import the rules anew"},
		{put("short", data[:100]), "damaged", "put back a copy"},
		{put("half", data[:len(data)/2]), "damaged", "put back a copy"},
		{put("flipped", flipped), "has another checksum", "faulty disk"},
		{other, "none of rules", "another program"},
		{held, "in use by another process", "stop the other service"},
	} {
		t.Run(filepath.Base(tt.path), func(t *testing.T) {
			t.Parallel()
			s, err := OpenDisk(tt.path)
			if err == nil {
				defer s.Close()
				for _, e := range s.Rules() {
					err = e
				}
			}
			fault, ok := errors.AsType[*DiskError](err)
			if !ok || !strings.Contains(fault.Error(), tt.want) || !strings.Contains(fault.Hint, tt.hint) || !strings.HasPrefix(fault.Error(), tt.path) {
				t.Errorf("error %v (%T), want %q and a hint %q", err, err, tt.want, tt.hint)
			}
		})
	}
}

// A panic of the iterating code is passed on and leaves the store usable.
func TestPanicOfTheReaderIsItsOwn(t *testing.T) {
	s := openDisk(t, filepath.Join(t.TempDir(), "rules.db"))
	testkit.Must(t, s.Put(sampleOnDisk("a", 1)))
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("recovered %v", p)
			}
		}()
		for _, err := range s.Rules() {
			testkit.Must(t, err)
			panic("mine")
		}
	}()
	testkit.Must(t, s.Put(sampleOnDisk("b", 1)))
}

func TestGatherStopsAtAnError(t *testing.T) {
	wrong := errors.New("wrong")
	_, err := Gather(func(yield func(catalog.Rule, error) bool) {
		_ = yield(sampleOnDisk("a", 1), nil) && yield(catalog.Rule{}, wrong)
	})
	if !errors.Is(err, wrong) {
		t.Errorf("error %v", err)
	}
	if _, err := Gather(each(sampleOnDisk("a", 1), sampleOnDisk("b", 1), sampleOnDisk("a", 2))); err == nil || !strings.Contains(err.Error(), "two rules have this id") {
		t.Errorf("error %v", err)
	}
}
