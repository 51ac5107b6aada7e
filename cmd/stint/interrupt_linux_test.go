package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"stint/cmd/stint/cli"
	"stint/internal/testkit"
	"stint/internal/text"
)

// lines are lines of an access log.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "192.0.2.%d - - [02/Mar/2026:09:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 5\n", i%2, i/60%60, i%60)
	}
	return b.String()
}

// interrupted runs a command until what is written into its pipe was read, interrupts it, and returns what
// it printed. It fails unless the status is 130.
func interrupted(t *testing.T, pipe string, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command("stint", args...) // TestMain put it into the PATH
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, t.Output()
	var to io.WriteCloser
	if pipe == "-" {
		var err error
		to, err = cmd.StdinPipe()
		testkit.Must(t, err)
	}
	testkit.Must(t, cmd.Start())
	if pipe != "-" {
		file, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when the command opens it
		testkit.Must(t, err)
		defer file.Close()
		to = file
	}
	// A pipe has room for less, so when all is written the command has read a part.
	_, err := io.WriteString(to, input)
	testkit.Must(t, err)
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	err = cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != exitInterrupted {
		t.Errorf("it ended with %v: %q", err, out.Bytes())
	}
	return out.String()
}

// TestReplayInterrupted interrupts replays that wait for more lines: they report those that they have read.
func TestReplayInterrupted(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "pipe")
	testkit.Must(t, syscall.Mkfifo(fifo, 0o600))
	for _, pipe := range []string{"-", fifo} {
		printed := interrupted(t, pipe, lines(20_000), "replay", "--limit", "1/min by ip", "--format", "json", pipe)
		var report struct {
			Lines, Parsed, Unparseable, Denied int64
			Interrupted                        bool
			Notes                              []string
		}
		if err := json.Unmarshal([]byte(printed), &report); err != nil {
			t.Fatal(err)
		}
		if !report.Interrupted || report.Parsed == 0 || report.Unparseable != 0 || report.Denied == 0 {
			t.Errorf("the report is %+v", report)
		}
		want := "Interrupted: the numbers are of the first " + text.Plural(report.Lines, "line", "lines") + "."
		if !slices.Contains(report.Notes, want) {
			t.Errorf("the notes are %q, want %q", report.Notes, want)
		}
	}
}

// TestDecideInterrupted interrupts a measurement: it prints what it has measured. A measurement on a terminal
// shows that it goes on, in lines that fit.
func TestDecideInterrupted(t *testing.T) {
	t.Parallel()
	shown := onTerminal(t, "bench", "decide", "--duration", "5m", "--workers", "1", "--keys", "10")
	testkit.Until(t, "progress is drawn twice", func() bool { return strings.Count(shown.String(), "measuring") >= 2 })
	testkit.Must(t, shown.Process.Signal(os.Interrupt))
	err := shown.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.ExitCode() != exitInterrupted {
		t.Errorf("it ended with %v", err)
	}
	_, report, found := strings.Cut(shown.String(), "store in memory")
	if !found || !strings.Contains(report, "\r\ndecisions  ") || !strings.Contains(report, "\r\nmemory     ") {
		t.Errorf("it printed %q", shown.String())
	}
	for line := range strings.SplitSeq(report, "\r\n") {
		if utf8.RuneCountInString(line) > 40 {
			t.Errorf("wider than the terminal: %q", line)
		}
	}
}

// TestNarrow runs commands on a terminal of 40 columns: no line is wider, but for words that are, and for what
// is indented for copying.
func TestNarrow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, rules := filepath.Join(dir, "a.log"), filepath.Join(dir, "a.yaml")
	testkit.Must(t, os.WriteFile(log, []byte(lines(3000)+"no line\n"), 0o600))
	testkit.Must(t, os.WriteFile(rules, []byte("domain: web\ndescriptors: [{key: remote_address, rate_limit: {requests: 1, per: 1m}}]\nhttp: {rate_limits: [{actions: [{remote_address: {}}]}]}\n"), 0o600))
	for _, args := range []string{
		"help", "help serve", "help bench", "help keys", "replay --help",
		"replay --limit 1/min " + log, "replay --limit 10/min --sweep " + log, "replay --rules " + rules + " " + log,
		"plan " + rules + " " + rules + " --log " + log, "check " + rules, "check --nothing", "health --admin 127.0.0.1:1",
	} {
		shown := onTerminal(t, strings.Fields(args)...)
		_ = shown.Wait() // some are refused
		if shown.String() == "" {
			t.Errorf("%s: prints nothing", args)
		}
		for line := range strings.SplitSeq(shown.String(), "\r\n") {
			if drawn := strings.LastIndexByte(line, '\r'); drawn >= 0 { // over a bar
				line = line[drawn+1:]
			}
			copied := strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "      ")
			if utf8.RuneCountInString(line) > 40 && !copied && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("stint %s: wider than the terminal: %q", args, line)
			}
		}
	}
}

// TestFilled breaks the lines of a text anew, and keeps what is indented.
func TestFilled(t *testing.T) {
	const given = "One two three\nfour five.\n\n  stint one two three four five six\n\nSix."
	for width, want := range map[int]string{
		cli.HelpWidth: given,
		14:            "One two three\nfour five.\n\n  stint one two three four five six\n\nSix.",
		20:            "One two three four\nfive.\n\n  stint one two three four five six\n\nSix.",
	} {
		if got := filled(given, width); got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
}
