package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"stint/internal/testkit"
)

var background = context.Background()

// journalRecords returns all records of a journal, and what ReplayJournal found.
func journalRecords(t *testing.T, name string) (all []string, found Replayed) {
	t.Helper()
	found, err := ReplayJournal(name, JournalReader{
		Head: func(head []byte) error {
			if string(head) != "head" {
				return fmt.Errorf("head %q", head)
			}
			return nil
		},
		Record: func(record []byte) error { all = append(all, string(record)); return nil },
	})
	testkit.Must(t, err)
	return all, found
}

func openJournal(t *testing.T, name string) *Journal {
	t.Helper()
	j, err := OpenJournal(name, 0, []byte("head"))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = j.Close() }) // closed by itself where that matters
	return j
}

// What Sync has answered is in the files, before the journal is closed.
func TestJournalSync(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a[*]b")
	j := openJournal(t, name)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			j.Append(fmt.Appendf(nil, "record %d", i))
			if err := j.Sync(background); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, found := journalRecords(t, name)
	if len(got) != 50 || found.Records != 50 || found.Files != 1 || found.Torn != 0 {
		t.Errorf("%d records, %+v", len(got), found)
	}
	if err := j.Sync(background); err != nil {
		t.Errorf("nothing to sync: %v", err)
	}
}

// A torn tail is dropped, wherever it is cut; what stands before it is read.
func TestJournalTornTail(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	j := openJournal(t, name)
	for _, text := range []string{"one", "two"} {
		j.Append([]byte(text))
		testkit.Must(t, j.Sync(background))
	}
	testkit.Must(t, j.Close())
	path := journalName(name, 1)
	whole, err := os.ReadFile(path)
	testkit.Must(t, err)
	last := recordHead + len("two")
	for n := range whole {
		testkit.Must(t, os.WriteFile(path, whole[:n], 0o600))
		want := []string{"one"}
		if n < len(whole)-last {
			want = nil
		}
		if got, found := journalRecords(t, name); !slices.Equal(got, want) || n > len(whole)-last && found.Torn != int64(n-len(whole)+last) {
			t.Fatalf("cut at %d of %d: %q, %+v", n, len(whole), got, found)
		}
	}
	for at := len(whole) - last; at < len(whole); at++ {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		testkit.Must(t, os.WriteFile(path, changed, 0o600))
		if got, _ := journalRecords(t, name); !slices.Equal(got, []string{"one"}) {
			t.Fatalf("a bit changed at %d: %q", at, got)
		}
	}
	testkit.Must(t, os.WriteFile(path, []byte("something else"), 0o600))
	if _, err := ReplayJournal(name, JournalReader{}); !errors.Is(err, ErrJournalDamaged) {
		t.Errorf("another file: %v", err)
	}
}

// Files follow each other until drop removes the older ones; a file that another process left is read
// first.
func TestJournalRotate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	first := openJournal(t, name)
	first.Append([]byte("one"))
	testkit.Must(t, first.Close())
	j := openJournal(t, name)
	j.Append([]byte("two"))
	drop, err := j.Rotate() // writes what was appended
	testkit.Must(t, err)
	j.Append([]byte("three"))
	testkit.Must(t, j.Sync(background))
	if got, found := journalRecords(t, name); !slices.Equal(got, []string{"one", "two", "three"}) || found.Files != 3 {
		t.Fatalf("%q, %+v", got, found)
	}
	testkit.Must(t, drop())
	if got, _ := journalRecords(t, name); !slices.Equal(got, []string{"three"}) {
		t.Fatalf("after drop: %q", got)
	}
	info, err := os.Stat(journalName(name, 3))
	testkit.Must(t, err)
	if j.Size() != info.Size() {
		t.Errorf("size %d, and the file has %d", j.Size(), info.Size())
	}
}

// After a failed write those who wait have an error, and no record is accepted until a new file has begun.
func TestJournalFailedWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	j := openJournal(t, name)
	j.Append([]byte("one"))
	testkit.Must(t, j.Sync(background))
	j.fileMu.Lock()
	testkit.Must(t, j.file.Close())
	j.fileMu.Unlock()
	j.Append([]byte("lost"))
	if err := j.Sync(background); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("a write into a closed file: %v", err)
	}
	j.Append([]byte("refused"))
	if j.Err() == nil || j.Sync(background) == nil {
		t.Error("a record was accepted after a failed write")
	}
	_, err := j.Rotate()
	testkit.Must(t, err)
	j.Append([]byte("two"))
	testkit.Must(t, j.Sync(background))
	if got, _ := journalRecords(t, name); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("records %q", got)
	}
}

// A caller without records has an error after a failed write until the states are saved, and no longer.
func TestJournalForgives(t *testing.T) {
	j := openJournal(t, filepath.Join(t.TempDir(), "a"))
	fail := func() {
		j.fileMu.Lock()
		testkit.Must(t, j.file.Close())
		j.fileMu.Unlock()
		j.Append([]byte("lost"))
		if j.Sync(background) == nil {
			t.Fatal("a write into a closed file succeeded")
		}
	}
	fail()
	drop, err := j.Rotate()
	testkit.Must(t, err)
	if j.Sync(background) == nil {
		t.Error("the failed write is forgotten before its states are saved")
	}
	testkit.Must(t, drop())
	testkit.Must(t, j.Sync(background))
	fail()
	testkit.Must(t, drop())
	if j.Sync(background) == nil {
		t.Error("an older save has forgiven a later failure")
	}
}

// A full disk refuses records and new files, and those who wait have an error.
func TestJournalFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		testkit.SkipOrFail(t, "the system has no /dev/full")
	}
	j := openJournal(t, filepath.Join(t.TempDir(), "a"))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	testkit.Must(t, err)
	j.fileMu.Lock()
	testkit.Must(t, j.file.Close())
	j.file = full
	j.fileMu.Unlock()
	j.Append([]byte("one"))
	if err := j.Sync(background); err == nil || j.Err() == nil {
		t.Errorf("a full disk: %v, %v", err, j.Err())
	}
}

// Sync does not wait longer than its context, and not after Close. A record that is too long fails.
func TestJournalSyncEnds(t *testing.T) {
	j := openJournal(t, filepath.Join(t.TempDir(), "a"))
	j.fileMu.Lock() // the disk hangs
	j.Append([]byte("one"))
	ctx, cancel := context.WithCancel(background)
	cancel()
	if err := j.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a disk that hangs: %v", err)
	}
	j.fileMu.Unlock()
	testkit.Must(t, j.Sync(background))
	j.Append(make([]byte, maxRecord+1))
	if j.Sync(background) == nil {
		t.Error("a record that is too long is accepted")
	}
	testkit.Must(t, j.Close())
	testkit.Must(t, j.Close())
	closed := openJournal(t, filepath.Join(t.TempDir(), "b"))
	testkit.Must(t, closed.Close())
	if err := closed.Sync(background); !errors.Is(err, ErrJournalClosed) {
		t.Errorf("a closed journal: %v", err)
	}
}

// A record that is damaged is a loss if a later write follows it, and no loss at the end of a file, wherever that
// is cut, also before a file that a later process wrote. A file between others that is gone is a loss.
func TestJournalDamaged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	for range 2 {
		j := openJournal(t, name)
		for _, text := range []string{"one", "two", "three"} {
			j.Append([]byte(text))
			testkit.Must(t, j.Sync(background))
		}
		testkit.Must(t, j.Close())
	}
	path := journalName(name, 1)
	whole, err := os.ReadFile(path)
	testkit.Must(t, err)
	head, last := len(journalMagic)+recordHead+len("head"), recordHead+len("three")
	for at := range whole[len(journalMagic):] {
		at += len(journalMagic)
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		testkit.Must(t, os.WriteFile(path, changed, 0o600))
		found, err := ReplayJournal(name, JournalReader{Head: func([]byte) error { return nil }, Record: func([]byte) error { return nil }})
		testkit.Must(t, err)
		if want := at < len(whole)-last; found.Damaged != want {
			t.Errorf("a bit changed at %d of %d (the first record is at %d): damaged %t, want %t", at, len(whole), head, found.Damaged, want)
		}
		testkit.Must(t, os.WriteFile(path, whole[:at], 0o600))
		if found, err := ReplayJournal(name, JournalReader{Head: func([]byte) error { return nil }, Record: func([]byte) error { return nil }}); err != nil || found.Damaged || found.First != 1 || found.Last != 2 {
			t.Errorf("cut at %d: %+v, %v", at, found, err)
		}
	}
	testkit.Must(t, os.Rename(journalName(name, 2), journalName(name, 3)))
	if _, found := journalRecords(t, name); !found.Damaged {
		t.Error("a file that is gone was not noticed")
	}
}

// Records that a write has torn apart are no loss, even if some behind them are whole.
func TestJournalTornWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	j := openJournal(t, name)
	j.Append([]byte("one"))
	testkit.Must(t, j.Sync(background))
	_, err := j.Rotate() // the first write of a file, and not of the journal
	testkit.Must(t, err)
	for _, text := range []string{"two", "three"} {
		j.Append([]byte(text))
	}
	testkit.Must(t, j.Close())
	path := journalName(name, 2)
	content, err := os.ReadFile(path)
	testkit.Must(t, err)
	copy(content[bytes.Index(content, []byte("two")):], "000")
	testkit.Must(t, os.WriteFile(path, content, 0o600))
	if got, found := journalRecords(t, name); !slices.Equal(got, []string{"one"}) || found.Damaged {
		t.Errorf("%q, %+v", got, found)
	}
}

// A file that was emptied, or cut in its first bytes, is a loss: begin names no such file. So is one that was cut while
// it was written, wherever that was, and written on.
func TestJournalCut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	j := openJournal(t, name)
	for _, text := range []string{"one", "two", "three"} {
		j.Append([]byte(text))
		testkit.Must(t, j.Sync(background))
	}
	path := journalName(name, 1)
	whole, err := os.ReadFile(path)
	testkit.Must(t, err)
	for n := range len(journalMagic) {
		testkit.Must(t, os.WriteFile(path, whole[:n], 0o600))
		if got, found := journalRecords(t, name); len(got) > 0 || !found.Damaged || found.Files != 1 {
			t.Errorf("cut at %d: %q, %+v", n, got, found)
		}
	}
	first := len(journalMagic) + recordHead + len("head")
	for n := first; n < len(whole); n++ {
		testkit.Must(t, os.WriteFile(path, whole, 0o600))
		testkit.Must(t, os.Truncate(path, int64(n)))
		j.Append([]byte("four"))
		testkit.Must(t, j.Sync(background))
		if _, found := journalRecords(t, name); !found.Damaged {
			t.Errorf("cut at %d of %d and written on: %+v", n, len(whole), found)
		}
	}
	testkit.Must(t, os.WriteFile(path, nil, 0o600))
	j.Append([]byte("five"))
	testkit.Must(t, j.Sync(background))
	if _, err := ReplayJournal(name, JournalReader{}); !errors.Is(err, ErrJournalDamaged) {
		t.Errorf("emptied and written on: %v", err)
	}
}

// A crash while a file begins leaves another name, which no reader takes for a file of the journal.
func TestJournalBeginCut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	j := openJournal(t, name)
	j.Append([]byte("one"))
	testkit.Must(t, j.Close())
	testkit.Must(t, os.WriteFile(journalName(name, 2)+".tmp", []byte("sti"), 0o600))
	if got, found := journalRecords(t, name); !slices.Equal(got, []string{"one"}) || found.Damaged || found.Files != 1 {
		t.Errorf("%q, %+v", got, found)
	}
	testkit.Must(t, os.Remove(journalName(name, 2)+".tmp"))
	testkit.Must(t, os.MkdirAll(journalName(name, 2)+".tmp/in the way", 0o700))
	if _, err := OpenJournal(name, 0, []byte("head")); err == nil {
		t.Error("a file begins under its own name")
	}
	if _, found := journalRecords(t, name); found.Damaged || found.Files != 1 {
		t.Errorf("after a file that could not begin: %+v", found)
	}
	testkit.Must(t, os.RemoveAll(journalName(name, 2)+".tmp"))
	testkit.Must(t, os.WriteFile(journalName(name, 2)+".tmp", []byte("sti"), 0o600))
	next := openJournal(t, name)
	next.Append([]byte("two"))
	testkit.Must(t, next.Sync(background))
	if got, found := journalRecords(t, name); !slices.Equal(got, []string{"one", "two"}) || found.Damaged || found.Files != 2 {
		t.Errorf("after a crash: %q, %+v", got, found)
	}
}

// The records of files before the first that is of use are not read, nor is damage in them a loss; their heads are.
func TestJournalFrom(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	for _, text := range []string{"one", "two", "three"} {
		j := openJournal(t, name)
		j.Append([]byte(text))
		testkit.Must(t, j.Sync(background))
		j.Append([]byte(text))
		testkit.Must(t, j.Close())
	}
	for from, want := range []string{"one one two two three three", "one one two two three three", "two two three three", "three three", ""} {
		var all []string
		heads := 0
		found, err := ReplayJournal(name, JournalReader{
			From: uint64(from), Head: func([]byte) error { heads++; return nil }, Record: func(record []byte) error { all = append(all, string(record)); return nil },
		})
		if got := strings.Join(all, " "); err != nil || got != want || heads != 3 || found.Files != 3 || found.First != 1 || found.Last != 3 || found.Damaged {
			t.Errorf("from %d: %q, %d heads, %+v, %v", from, got, heads, found, err)
		}
	}
	reader := JournalReader{Head: func([]byte) error { return nil }, Record: func([]byte) error { return nil }}
	whole, err := os.ReadFile(journalName(name, 1))
	testkit.Must(t, err)
	whole[len(journalMagic)+recordHead+len("head")+recordHead] ^= 1 // in the first record
	for _, content := range [][]byte{nil, whole} {
		testkit.Must(t, os.WriteFile(journalName(name, 1), content, 0o600))
		for from, damaged := range []bool{true, true, false} {
			reader.From = uint64(from)
			if found, err := ReplayJournal(name, reader); err != nil || found.Damaged != damaged {
				t.Errorf("from %d: %+v, %v", from, found, err)
			}
		}
	}
}

// A record that is damaged after others of its write is a loss if the next write follows it.
func TestJournalDamagedInWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	j := openJournal(t, name)
	for _, text := range []string{"one", "two"} {
		j.Append([]byte(text))
	}
	testkit.Must(t, j.Sync(background))
	j.Append([]byte("three"))
	testkit.Must(t, j.Close())
	path := journalName(name, 1)
	content, err := os.ReadFile(path)
	testkit.Must(t, err)
	for text, damaged := range map[string]bool{"one": true, "two": true, "three": false} {
		changed := bytes.Clone(content)
		changed[bytes.Index(content, []byte(text))] ^= 1
		testkit.Must(t, os.WriteFile(path, changed, 0o600))
		if _, found := journalRecords(t, name); found.Damaged != damaged {
			t.Errorf("%s: %+v", text, found)
		}
	}
}

// Numbers of files are not used again, though the files are gone.
func TestJournalAfter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	for _, step := range []struct{ after, want uint64 }{{0, 1}, {7, 8}, {3, 9}, {9, 10}} {
		j, err := OpenJournal(name, step.after, []byte("head"))
		testkit.Must(t, err)
		testkit.Must(t, j.Close())
		if j.Number() != step.want {
			t.Errorf("after %d begins file %d, want %d", step.after, j.Number(), step.want)
		}
	}
}
