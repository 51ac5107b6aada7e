package view

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"stint/internal/testkit"
)

// Working draws nothing into a buffer or a file, and does not even ask what to draw.
func TestWorkingElsewhere(t *testing.T) {
	var out bytes.Buffer
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	testkit.Must(t, err)
	defer file.Close()
	asked := func() string { t.Error("asked for the text"); return "" }
	Working(&out, asked)()
	Working(file, asked)()
	Clear(&out)
	Clear(file)
	if out.Len() > 0 || Size(file) > 0 {
		t.Errorf("drew %q and %d bytes", out.String(), Size(file))
	}
}

// A transfer says how much has passed, also of how much if that is known, and that it waits for the other side.
func TestTransfer(t *testing.T) {
	known := &Transfer{In: strings.NewReader(strings.Repeat("x", 30_000)), Size: 30_000}
	unknown := &Transfer{In: known}
	if got := unknown.Received(); got != "waiting for the service" {
		t.Errorf("before: %q", got)
	}
	read := func(n int) {
		for range n {
			_, _ = unknown.Read(make([]byte, 10_000)) // its errors are told by Err
		}
	}
	read(1)
	for want, got := range map[string]string{"sent 10kB of 30kB": known.Sent(), "sent 10kB": unknown.Sent(), "received 10kB": unknown.Received()} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	read(3)
	if got := known.Sent(); got != "waiting for the service" || unknown.Received() != "received 30kB" || known.Err() != nil {
		t.Errorf("after: %q, %q, %v", got, unknown.Received(), known.Err())
	}
	broken := errors.New("broken")
	failing := &Transfer{In: iotest.ErrReader(broken)}
	_, _ = failing.Read(make([]byte, 1))
	if !errors.Is(failing.Err(), broken) {
		t.Errorf("error %v", failing.Err())
	}
}

// A pipe has no size and is no file.
func TestSize(t *testing.T) {
	name := filepath.Join(t.TempDir(), "records")
	testkit.Must(t, os.WriteFile(name, []byte("abc"), 0o600))
	file, err := os.Open(name)
	testkit.Must(t, err)
	defer file.Close()
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	defer r.Close()
	defer w.Close()
	if Size(file) != 3 || !IsFile(file) || Size(r) != 0 || IsFile(w) || IsFile(new(bytes.Buffer)) {
		t.Errorf("sizes %d and %d, files %v and %v", Size(file), Size(r), IsFile(file), IsFile(w))
	}
}
