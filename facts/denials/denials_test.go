package denials

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

type world struct {
	*testing.T
	log *Log
	now time.Time
}

func open(t *testing.T, at time.Time, o Options) *world {
	t.Helper()
	w := &world{T: t, now: at}
	log, err := Open(o, func() time.Time { return w.now }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.log = log
	t.Cleanup(func() { log.Close() })
	return w
}

// deny notes denials of a key.
func (w *world) deny(hash, count uint64) {
	w.log.Note(Key{Hash: hash}, count, func() Line { return Line{At: w.now, RequestID: fmt.Sprint(hash), Rule: strings.Repeat("r", 100)} })
	w.log.Flush()
}

// The first denial of a minute makes a line, and then every tenth; what a minute left over counts in the next.
func TestSampling(t *testing.T) {
	w := open(t, noon, Options{Every: 10})
	w.deny(1, 5)
	w.deny(1, 5)
	w.deny(1, 1)
	w.deny(2, 1)
	w.now = w.now.Add(time.Minute)
	w.deny(1, 1)
	lines, files := w.log.Recent()
	var got []uint64
	for _, l := range lines {
		got = append(got, l.Sampled)
	}
	if fmt.Sprint(got) != "[2 1 10 1]" && fmt.Sprint(got) != "[1 1 10 1]" || files {
		t.Errorf("%v", got)
	}
	sum := uint64(0)
	for _, n := range got {
		sum += n
	}
	if sum != 13 {
		t.Errorf("the lines stand for %d denials, want 13", sum)
	}
}

// A second has at most so many lines. A key whose first line was left out gets it later.
func TestPerSecond(t *testing.T) {
	w := open(t, noon, Options{PerSecond: 3})
	for hash := range uint64(10) {
		w.deny(hash, 1)
	}
	if lines, _ := w.log.Recent(); len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
	w.now = w.now.Add(time.Second)
	w.deny(9, 1)
	if lines, _ := w.log.Recent(); len(lines) != 4 || lines[0].RequestID != "9" {
		t.Errorf("%d lines", len(lines))
	}
}

// Files together stay within their bytes and their age, and old lines are found in them, also by the next process.
func TestFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "denials")
	o := Options{File: file, PerSecond: 1 << 20, Bytes: 4 << 20, Keep: 48 * time.Hour}
	w := open(t, noon, o)
	const n = 25_000
	for hash := range uint64(n) {
		w.deny(hash, 1)
		w.now = w.now.Add(time.Millisecond)
	}
	total := int64(0)
	names, _ := filepath.Glob(file + "*")
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
	}
	if total > o.Bytes || total < o.Bytes/2 || len(names) < 5 {
		t.Errorf("%d files of %d bytes", len(names), total)
	}
	is := func(id int) func(*Line) bool { return func(l *Line) bool { return l.RequestID == fmt.Sprint(id) } }
	if found := w.log.Older(remembered, 1, is(n-remembered-500)); len(found) != 1 {
		t.Error("an older line was not found")
	}
	if found := w.log.Older(remembered, 1, is(0)); len(found) != 0 {
		t.Error("a line of a removed file was found")
	}
	testClose(t, w.log)
	again := open(t, w.now, o)
	if lines, _ := again.log.Recent(); len(lines) != remembered || lines[0].RequestID != fmt.Sprint(n-1) {
		t.Errorf("%d lines after a restart", len(lines))
	}
	testClose(t, again.log)
	for _, name := range names[1:] {
		if err := os.Chtimes(name, noon, noon); err != nil {
			t.Fatal(err)
		}
	}
	open(t, noon.Add(72*time.Hour), o)
	if left, _ := filepath.Glob(file + ".*"); len(left) != 0 {
		t.Errorf("old files are left: %v", left)
	}
}

func testClose(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// A file is at most a day long.
func TestDaily(t *testing.T) {
	file := filepath.Join(t.TempDir(), "denials")
	w := open(t, noon, Options{File: file})
	w.deny(1, 1)
	w.now = w.now.Add(25 * time.Hour)
	w.deny(1, 1)
	w.deny(2, 1)
	old, _ := filepath.Glob(file + ".*")
	body, err := os.ReadFile(file)
	if len(old) != 1 || err != nil || bytes.Count(body, []byte("\n")) != 1 {
		t.Errorf("%v, %q, %v", old, body, err)
	}
}

// After somebody moved or removed the file, also with a new one in its place, lines go to the file of the name, and it is
// rotated as before.
func TestMoved(t *testing.T) {
	for name, move := range map[string]func(file string) error{
		"moved":   func(file string) error { return os.Rename(file, file+"-1") },
		"removed": os.Remove,
		"created": func(file string) error {
			return errors.Join(os.Rename(file, file+"-1"), os.WriteFile(file, nil, 0o600))
		},
		"truncated": func(file string) error { return os.Truncate(file, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "denials")
			w := open(t, noon, Options{File: file, Bytes: 80 << 10, PerSecond: 1000})
			for hash := range uint64(30) { // most of an eighth of the bytes
				w.deny(hash, 1)
			}
			if err := move(file); err != nil {
				t.Fatal(err)
			}
			w.deny(100, 1)
			if body, err := os.ReadFile(file); err != nil || !bytes.Contains(body, []byte(`"request_id":"100"`)) {
				t.Fatalf("the file has %q, %v", body, err)
			}
			for hash := range uint64(20) {
				w.deny(200+hash, 1)
			}
			if old, _ := filepath.Glob(file + ".*"); len(old) != 0 {
				t.Errorf("a short file is rotated: %v", old)
			}
			for hash := range uint64(30) {
				w.deny(300+hash, 1)
			}
			old, _ := filepath.Glob(file + ".*")
			info, err := os.Stat(file)
			if len(old) != 1 || err != nil || info.Size() > 10<<10 {
				t.Errorf("it is not rotated: %v, %v", old, err)
			}
		})
	}
}

// Without a file lines go to a writer, if there is one.
func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := open(t, noon, Options{Out: &out})
	w.deny(1, 1)
	if !strings.HasPrefix(out.String(), `{"at":"2026-05-01T12:00:00Z"`) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%q", out.String())
	}
}

// Restarts do not make a file longer than a day, and old files go while nothing is denied.
func TestDailyWithRestarts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "denials")
	at := noon
	for restart := range 3 {
		w := open(t, at, Options{File: file, Keep: 48 * time.Hour})
		w.deny(uint64(restart), 1)
		testClose(t, w.log)
		at = at.Add(13 * time.Hour)
	}
	old, _ := filepath.Glob(file + ".*")
	if len(old) != 1 {
		t.Fatalf("after 26 hours: %v", old)
	}
	w := open(t, at, Options{File: file, Keep: 48 * time.Hour})
	w.deny(9, 1)
	if err := os.Chtimes(old[0], at, at); err != nil {
		t.Fatal(err)
	}
	w.now = at.Add(49 * time.Hour)
	w.log.Flush()
	left, _ := filepath.Glob(file + "*")
	info, err := os.Stat(file)
	if len(left) != 2 || strings.HasSuffix(left[1], filepath.Base(old[0])) || err != nil || info.Size() != 0 {
		t.Errorf("after two days without a denial: %v, %v", left, err)
	}
}
