package notify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stint/internal/testkit"
)

// wholeLines checks that each line of a file is an event, and returns their number.
func wholeLines(t *testing.T, name string) (n int) {
	t.Helper()
	text, err := os.ReadFile(name)
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		if err := json.Unmarshal([]byte(line), new(message)); err != nil || !strings.HasSuffix(line, "\n") {
			t.Errorf("%v in %q", err, line)
		}
		n++
	}
	return n
}

// A disk that fills up in the middle of a line leaves none of it, and the next line is whole.
func TestFullDisk(t *testing.T) {
	s := newLineSender(filepath.Join(t.TempDir(), "events.jsonl"), nil)
	testkit.Must(t, s.try())
	e := event(1)
	if a := s.send(t.Context(), &e); a.Problem != "" {
		t.Fatal(a.Problem)
	}
	info, err := os.Stat(s.path)
	testkit.Must(t, err)
	var limit syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	small := limit
	small.Cur = uint64(info.Size()) * 3 / 2 // room for one line and a half
	testkit.Must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	e = event(2)
	full := s.send(t.Context(), &e)
	testkit.Must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if n := wholeLines(t, s.path); n != 1 || full.Problem == "" {
		t.Errorf("%d lines on a full disk, want 1: %+v", n, full)
	}
	if a := s.send(t.Context(), &e); a.Problem != "" || wholeLines(t, s.path) != 2 {
		t.Errorf("the same event when there is room: %+v", a)
	}
}

// A named pipe gets each line once, when it has a reader.
func TestNamedPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(name, 0o600))
	s := newLineSender(name, nil)
	testkit.Must(t, s.try())
	answer := make(chan Answer)
	go func() {
		e := event(1)
		answer <- s.send(t.Context(), &e)
	}()
	text, err := os.ReadFile(name)
	if a := <-answer; err != nil || a.Problem != "" || json.Unmarshal(text, new(message)) != nil {
		t.Errorf("%q, %v, %+v", text, err, a)
	}
}
