package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode/utf8"

	"stint/cmd/stint/view"
	"stint/internal/testkit"
)

// left returns the lines that a terminal shows in the end.
func left(printed string) []string {
	lines := strings.Split(strings.ReplaceAll(printed, "\r\n", "\n"), "\n")
	for i, line := range lines {
		var shown []rune
		for part := range strings.SplitSeq(line, "\r") { // each is written over those before
			over := []rune(part)
			shown = append(over, shown[min(len(over), len(shown)):]...)
		}
		lines[i] = strings.TrimRight(string(shown), " ")
	}
	return lines
}

// narrow fails unless all that was drawn fits into 40 columns, without colors.
func narrow(t *testing.T, printed string) {
	t.Helper()
	for part := range strings.FieldsFuncSeq(printed, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if utf8.RuneCountInString(part) > 40 || strings.Contains(part, "\x1b") {
			t.Errorf("drew %q", part)
		}
	}
}

// pipeOfRules starts stint check on a terminal with rules that it waits for, and returns the pipe for them.
func pipeOfRules(t *testing.T, args ...string) (*screen, *os.File) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rules") // check reads one with .yaml twice
	testkit.Must(t, syscall.Mkfifo(name, 0o600))
	shown := onTerminal(t, append([]string{"check", name}, args...)...)
	pipe, err := os.OpenFile(name, os.O_WRONLY, 0) // when check opens it
	testkit.Must(t, err)
	t.Cleanup(func() { _ = pipe.Close() })
	return shown, pipe
}

// TestCheckProgress checks rules that come late: check shows what it does until it has them, and then its
// report alone.
func TestCheckProgress(t *testing.T) {
	t.Parallel()
	shown, pipe := pipeOfRules(t)
	testkit.Until(t, "progress is drawn twice", func() bool { return strings.Count(shown.String(), " reading rules ") >= 2 })
	_, err := pipe.WriteString("domain: web\ndescriptors: [{key: user, rate_limit: {requests: 1, per: 1m}}]\n")
	testkit.Must(t, err)
	testkit.Must(t, pipe.Close())
	testkit.Must(t, shown.Wait())
	narrow(t, shown.String())
	if lines := left(shown.String()); !strings.HasPrefix(lines[0], "ok: 1 rule in 1 domain") {
		t.Errorf("the terminal shows %q", lines)
	}
}

// TestCheckInterrupted interrupts a check while its progress is on the terminal: nothing stays there.
func TestCheckInterrupted(t *testing.T) {
	t.Parallel()
	shown, _ := pipeOfRules(t)
	testkit.Until(t, "progress is drawn", func() bool { return strings.Contains(shown.String(), " reading rules ") })
	testkit.Must(t, shown.Process.Signal(os.Interrupt))
	err := shown.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != exitInterrupted {
		t.Errorf("it ended with %v", err)
	}
	if lines := left(shown.String()); strings.Join(lines, "") != "" {
		t.Errorf("the terminal shows %q", lines)
	}
}

// TestRecordsProgress imports and exports records through a service that is slow.
func TestRecordsProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "records.jsonl"), filepath.Join(dir, "out.jsonl")
	testkit.Must(t, os.WriteFile(file, []byte(`{"kind": "subject"}`+"\n"), 0o600))
	for _, of := range []struct {
		args   []string
		answer string // its second half comes late
		drawn  string
		left   string
	}{
		{[]string{"import", file}, `{"unchanged": 1}`, " waiting for the service ", "added 0, "},
		{[]string{"export", "--out", out}, strings.Repeat("x", 24<<10), " received 12kB ", ""},
	} {
		goOn := make(chan struct{})
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			half := len(of.answer) / 2
			fmt.Fprint(w, of.answer[:half])
			_ = http.NewResponseController(w).Flush() // an error is seen by what is drawn
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, of.answer[half:])
		}))
		defer service.Close()
		shown := onTerminal(t, append(append([]string{"records"}, of.args...), "--admin", service.Listener.Addr().String())...)
		testkit.Until(t, of.drawn+"is drawn twice", func() bool { return strings.Count(shown.String(), of.drawn) >= 2 })
		close(goOn)
		testkit.Must(t, shown.Wait())
		narrow(t, shown.String())
		if lines := left(shown.String()); !strings.HasPrefix(lines[0], of.left) || of.left == "" && lines[0] != "" {
			t.Errorf("%s: the terminal shows %q", of.args, lines)
		}
	}
}

// TestNoProgress transfers records where progress would come between the bytes of an answer on the terminal. The
// service answers when a command that began later has drawn its progress, so these would have drawn theirs.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	const answer = `{"kind":"subject"}`
	var asked atomic.Int64
	goOn := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		select {
		case <-goOn:
		case <-t.Context().Done():
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(service.Close)
	start := func(args string) *screen {
		before := asked.Load()
		shown := onTerminal(t, append(strings.Fields(args), "--admin", service.Listener.Addr().String())...)
		testkit.Until(t, args+" asks the service", func() bool { return asked.Load() > before })
		return shown
	}
	quiet := []*screen{start("records import --json /dev/null"), start("records export")}
	later := start("records import /dev/null")
	testkit.Until(t, "progress is drawn twice", func() bool { return strings.Count(later.String(), " waiting for the service ") >= 2 })
	close(goOn)
	testkit.Must(t, later.Wait())
	for _, shown := range quiet {
		testkit.Must(t, shown.Wait())
		if got := strings.TrimSpace(shown.String()); got != answer {
			t.Errorf("%q drew %q", shown.Args, got)
		}
	}
}

// TestNarrowBar draws the bar of a replay on a terminal of 40 columns: there is room for times of minutes.
func TestNarrowBar(t *testing.T) {
	t.Parallel()
	ours, theirs := openTerminal(t)
	defer theirs.Close()
	b := newBar(theirs)
	b.show(50, 100)
	chunk := make([]byte, 4096)
	n, err := ours.Read(chunk)
	testkit.Must(t, err)
	drawn := strings.TrimSpace(string(chunk[:n]))
	if !strings.HasPrefix(drawn, "50% |") { // so that " 100% || (999 MB/s) [10m10s:10m10s]" fits
		t.Errorf("drew %q", drawn)
	}
}

// TestLongProgress draws a text that is wider than the terminal.
func TestLongProgress(t *testing.T) {
	t.Parallel()
	ours, theirs := openTerminal(t)
	defer theirs.Close()
	done := view.Working(theirs, func() string { return strings.Repeat("words ", 20) })
	chunk := make([]byte, 4096)
	n, err := ours.Read(chunk)
	testkit.Must(t, err)
	done()
	if !strings.Contains(string(chunk[:n]), "words") {
		t.Errorf("drew %q", chunk[:n])
	}
	narrow(t, string(chunk[:n]))
}
