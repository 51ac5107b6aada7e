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

// screen is a run of stint on a terminal. It collects what that prints.
type screen struct {
	*exec.Cmd
	done chan struct{} // closed when all was read

	mu  sync.Mutex
	out bytes.Buffer
}

// onTerminal starts stint on a terminal of 40 columns.
func onTerminal(t *testing.T, args ...string) *screen {
	t.Helper()
	ours, theirs := openTerminal(t)
	s := &screen{Cmd: exec.Command("stint", args...), done: make(chan struct{})} // TestMain put it into the PATH
	s.Stdin, s.Stdout, s.Stderr = theirs, theirs, theirs
	testkit.Must(t, s.Start())
	testkit.Must(t, theirs.Close())
	go s.read(ours)
	return s
}

// Wait returns when stint has ended and all that it printed was read.
func (s *screen) Wait() error {
	err := s.Cmd.Wait()
	<-s.done
	return err
}

// read reads until the other end is closed.
func (s *screen) read(from *os.File) {
	defer close(s.done)
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
		args := []string{"bench", "load", "--duration", "5m", "--rate", "50", "--limit", "1000/s", service.URL}
		if json {
			args = append(args, "--json")
		}
		shown := onTerminal(t, args...)
		if json {
			<-asked
		} else {
			testkit.Until(t, "progress is drawn twice", func() bool { return strings.Count(shown.String(), " allowed") >= 2 })
		}
		testkit.Must(t, shown.Process.Signal(os.Interrupt))
		err := shown.Wait()
		if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != exitInterrupted {
			t.Fatalf("it ended with %v: %q", err, shown.String())
		}
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
