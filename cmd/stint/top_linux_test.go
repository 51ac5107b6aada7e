package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"stint/internal/testkit"
)

// openTerminal returns both ends of a terminal of 40 columns.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = ours.Close() })
	control := func(request uintptr, value unsafe.Pointer) {
		t.Helper()
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), request, uintptr(value)); errno != 0 {
			t.Fatal(errno)
		}
	}
	var lock, number int32
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&lock))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := [4]uint16{20, 40}
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	testkit.Must(t, err)
	return ours, theirs
}

// TestTopInterrupted runs stint top on a terminal until it has drawn two screens, and interrupts it: it
// prints the last screen and ends with status 130.
func TestTopInterrupted(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/v1/facts":      `{"at": "%s", "nodes": [{"name": "node-a", "decided": 10}], "rules": [{"domain": "api", "name": "api/user", "denied": 3}]}`,
		"/v1/facts/keys": `{"keys": [{"rule": "api/user", "id": "00ff", "entries": [], "denied": 3}]}`,
		"/v1/alarms":     `{"alarms": []}`,
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(answers[r.URL.Path], "%s") {
			fmt.Fprintf(w, answers[r.URL.Path], time.Now().Format(time.RFC3339Nano))
			return
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer service.Close()
	ours, theirs := openTerminal(t)
	cmd := exec.Command("stint", "top", "--every", "100ms", "--admin", service.Listener.Addr().String()) // TestMain put it into the PATH
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "TERM=xterm")
	testkit.Must(t, cmd.Start())
	testkit.Must(t, theirs.Close())
	var mu sync.Mutex
	var out bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		chunk := make([]byte, 4096)
		for {
			n, err := ours.Read(chunk)
			mu.Lock()
			out.Write(chunk[:n])
			mu.Unlock()
			if err != nil { // the other end was closed
				return
			}
		}
	}()
	shown := func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
	testkit.Until(t, "two screens are drawn", func() bool { return strings.Count(shown(), "\x1b[H") >= 2 })
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	err := cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != exitInterrupted {
		t.Fatalf("it ended with %v: %q", err, shown())
	}
	<-read
	_, last, _ := strings.Cut(shown(), "\x1b[?1049l")
	if !strings.Contains(last, "api/user") || !strings.Contains(last, "00ff") || strings.Contains(last, "\x1b") {
		t.Errorf("the last screen is %q", last)
	}
	for line := range strings.Lines(last) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\r\n")) > 40 {
			t.Errorf("wider than the terminal: %q", line)
		}
	}
}
