//go:build unix

package memory

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no file is refused at once, a pipe that nobody writes into as well.
func TestLoadNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, t.TempDir()} {
		if _, err := LoadFile(name, Options{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
