package view

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	// progressAfter is how long a command runs before [Working] draws its line.
	progressAfter = time.Second
	// progressEvery is the time between two drawings of the line.
	progressEvery = 250 * time.Millisecond
	// besideDoing is how many columns the line needs at most beside its text.
	besideDoing = len("|   [10h10m10s] ")
)

// Working draws one line on a terminal while a command runs: what the command does now, and for how long
// it has been running. It draws the line first after a second. It calls doing for the text until its
// caller calls done, which clears the line. Elsewhere than on a terminal it draws nothing.
func Working(out io.Writer, doing func() string) (done func()) {
	terminalSize := Terminal(out)
	if _, _, terminal := terminalSize(); !terminal {
		return func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(out), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0)) // so that it is drawn here alone
	bar.StartWithoutRender()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		wait := time.NewTimer(progressAfter)
		defer wait.Stop()
		for {
			select {
			case <-end:
				_ = bar.Finish() // an error of the terminal does not matter
				return
			case <-wait.C:
				columns, _, _ := terminalSize()
				if columns <= 0 {
					columns = 80
				}
				if room := columns - besideDoing - 1; room > 0 {
					bar.Describe(cut(doing(), room))
				}
				wait.Reset(progressEvery)
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// Clear clears the line of a terminal in which a command that is interrupted may have drawn its progress.
// Elsewhere it does nothing.
func Clear(out io.Writer) {
	if columns, _, terminal := Terminal(out)(); terminal && columns > 1 {
		_, _ = io.WriteString(out, "\r"+strings.Repeat(" ", columns-1)+"\r") // the program ends
	}
}

// Step is what a command does now, for [Working]. The zero value is an empty text.
type Step struct{ text atomic.Pointer[string] }

// Set changes the text.
func (s *Step) Set(text string) { s.text.Store(&text) }

// String returns the text.
func (s *Step) String() string {
	if text := s.text.Load(); text != nil {
		return *text
	}
	return ""
}

// waiting is the text of a transfer while no bytes pass.
const waiting = "waiting for the service"

// Transfer reads what a command sends to a service or receives from it, and counts the bytes for
// [Working]. Its methods may be called at any time.
type Transfer struct {
	In   io.Reader
	Size int64 // of all that In has, in bytes; 0: unknown

	mu    sync.Mutex
	read  int64
	ended bool
	err   error
}

// Read implements io.Reader.
func (t *Transfer) Read(p []byte) (int, error) {
	n, err := t.In.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read += int64(n)
	if err != nil {
		t.ended = true
		if !errors.Is(err, io.EOF) {
			t.err = err
		}
	}
	return n, err
}

// Err returns the error of In; nil if it had none but io.EOF.
func (t *Transfer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Sent returns how much was sent.
func (t *Transfer) Sent() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
		return waiting
	case t.Size > 0:
		return "sent " + size(t.read) + " of " + size(t.Size)
	}
	return "sent " + size(t.read)
}

// Received returns how much was received.
func (t *Transfer) Received() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.read == 0 {
		return waiting
	}
	return "received " + size(t.read)
}

// Size returns the size of a regular file; 0 for others.
func Size(file *os.File) int64 {
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

// IsFile reports whether an output is a regular file.
func IsFile(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// size returns a number of bytes as a short text.
func size(bytes int64) string { return short(float64(bytes)) + "B" }
