package denials

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// wholeLines returns how many lines of the log a file has, and fails for one that is none.
func wholeLines(t *testing.T, name string) int {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for text := range bytes.Lines(body) {
		if err := json.Unmarshal(text, new(Line)); err != nil {
			t.Errorf("%v in %q", err, text)
		}
		n++
	}
	return n
}

// A disk that fills up in the middle of a line leaves none of it, and the next line is whole.
func TestFullDisk(t *testing.T) {
	w := open(t, noon, Options{File: filepath.Join(t.TempDir(), "log")})
	var said strings.Builder
	w.log.log = slog.New(slog.NewTextHandler(&said, nil))
	w.deny(1, 1)
	info, err := os.Stat(w.log.options.File)
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	small := limit
	small.Cur = uint64(info.Size()) * 5 / 2 // room for one line and a half
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	for hash := range uint64(3) {
		w.log.Note(Key{Hash: 10 + hash}, 1, func() Line { return Line{At: w.now, RequestID: "2", Rule: strings.Repeat("r", 100)} })
	}
	w.log.Flush()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if n := wholeLines(t, w.log.options.File); n != 2 || !strings.Contains(said.String(), "denials not written") {
		t.Errorf("%d lines on a full disk, want 2; the log says %s", n, said.String())
	}
	w.deny(3, 1)
	if n := wholeLines(t, w.log.options.File); n != 3 || !strings.Contains(said.String(), "denials are written again") {
		t.Errorf("%d lines, want 3; the log says %s", n, said.String())
	}
	if info, err := os.Stat(w.log.options.File); err != nil || info.Size() != w.log.size {
		t.Errorf("the file has %d bytes, counted were %d", info.Size(), w.log.size)
	}
}

// A line that a crash cut off does not spoil the next one.
func TestCutOff(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte(`{"at":"2026-05-01T11:00:00Z","rule":"r"}`+"\n"+`{"at":"2026-`), 0o600); err != nil {
		t.Fatal(err)
	}
	w := open(t, noon, Options{File: name})
	w.deny(1, 1)
	if lines := w.log.Older(0, 9, nil); len(lines) != 2 {
		t.Errorf("%+v", lines)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != w.log.size {
		t.Errorf("the file has %d bytes, counted were %d", info.Size(), w.log.size)
	}
}
