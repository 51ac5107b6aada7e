package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"stint/internal/testkit"
)

// screen collects what a program prints on a terminal.
type screen struct {
	mu  sync.Mutex
	out bytes.Buffer
}

// read reads until the other end is closed.
func (s *screen) read(from *os.File, done chan<- struct{}) {
	defer close(done)
	chunk := make([]byte, 4096)
	for {
		n, err := from.Read(chunk)
		s.mu.Lock()
		s.out.Write(chunk[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// TestLoadInterrupted runs stint bench load on a terminal until it has drawn its progress, and interrupts it: it prints what it
// has measured and ends with status 130. With --json it draws nothing.
func TestLoadInterrupted(t *testing.T) {
	t.Parallel()
	for _, json := range []bool{false, true} {
		asked := make(chan struct{})
		var once sync.Once
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			once.Do(func() { close(asked) })
			_, _ = w.Write([]byte(`{"allowed": true}`))
		}))
		defer service.Close()
		ours, theirs := openTerminal(t)
		args := []string{"bench", "load", "--duration", "5m", "--rate", "50", "--limit", "1000/s", service.URL}
		if json {
			args = append(args, "--json")
		}
		cmd := exec.Command("stint", args...) // TestMain put it into the PATH
		cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
		testkit.Must(t, cmd.Start())
		testkit.Must(t, theirs.Close())
		var shown screen
		read := make(chan struct{})
		go shown.read(ours, read)
		if json {
			<-asked
		} else {
			testkit.Until(t, "progress is drawn twice", func() bool { return strings.Count(shown.String(), " allowed") >= 2 })
		}
		testkit.Must(t, cmd.Process.Signal(os.Interrupt))
		err := cmd.Wait()
		if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != exitInterrupted {
			t.Fatalf("it ended with %v: %q", err, shown.String())
		}
		<-read
		want, never := "64 workers, 1000 keys (zipf), interrupted\r\n", "\x00"
		if json {
			want, never = `"interrupted": true,`, "\x1b"
		}
		// The terminal is narrower than the title.
		if text := strings.ReplaceAll(shown.String(), "\r\n  ", map[bool]string{true: "\r\n  ", false: " "}[json]); !strings.Contains(text, want) || strings.Contains(text, never) || json && !strings.HasPrefix(text, "{") {
			t.Errorf("it printed %q", text)
		}
	}
}
