//go:build unix

package memory

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// LoadFile refuses names that are not regular files at once, even a pipe into which nobody writes.
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
