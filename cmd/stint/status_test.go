package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stint/cmd/stint/cli"
	"stint/internal/testkit"
)

// TestInterrupted interrupts a replay that waits for its input.
func TestInterrupted(t *testing.T) {
	cmd := exec.Command("stint", "replay", "--limit", "1/s", "--format", "json", "-") // TestMain added it to PATH
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The command handles the signal before it reads. A pipe buffers less than this input, so when
	// all is written the command has read a part.
	if _, err := stdin.Write(bytes.Repeat([]byte("x\n"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitInterrupted {
		t.Errorf("ended with %v, want status %d", err, exitInterrupted)
	}
}

// The exit status is 0 after success, 1 for refused input, 2 for wrong usage, and a hint follows
// every error.
func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		args string
		want int
	}{
		{"help", exitOK},
		{"help check", exitOK},
		{"serve --help", exitOK},
		{"version", exitOK},
		{"", exitUsage},
		{"help me", exitUsage},
		{"frobnicate", exitUsage},
		{"serve --nothing", exitUsage},
		{"serve --http 8080", exitUsage},
		{"serve --config none.yaml", exitRefused},
		{"serve --rules none.yaml", exitRefused},
		{"serve --admin 0.0.0.0:1", exitRefused},
		{"check", exitUsage},
		{"check none.yaml", exitRefused},
		{"replay", exitUsage},
		{"replay --limit 1/s none.log", exitRefused},
		{"replay --limit x none.log", exitRefused},
	} {
		t.Run(test.args, func(t *testing.T) {
			var out, err bytes.Buffer
			s := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &err}
			if got := run(t.Context(), s, strings.Fields(test.args)); got != test.want {
				t.Errorf("status %d, want %d; said %s", got, test.want, err.String())
			}
			said := err.String()
			switch {
			case test.want == exitOK && (said != "" || out.Len() == 0):
				t.Errorf("stdout %q, stderr %q", out.String(), said)
			case test.want != exitOK && test.args != "" && !strings.Contains(said, "\nhint: "):
				t.Errorf("no hint in %q", said)
			}
		})
	}
}

// full is an output without room, such as a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestNoRoom: a command whose output is lost has failed. Else a script would go on with an empty token, or half of the
// rules.
func TestNoRoom(t *testing.T) {
	dir := t.TempDir()
	rules, log := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "access.log")
	testkit.Must(t, os.WriteFile(rules, []byte(restartRules), 0o600))
	testkit.Must(t, os.WriteFile(log, []byte("192.0.2.1 - - [02/Mar/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n"), 0o600))
	for _, args := range []string{
		"version", "completion bash", "token --role read name", "check --print " + rules, "check --format json " + rules,
		"replay --limit 1/s " + log, "replay --limit 1/s --format json " + log, "replay --limit 1/s --format html " + log,
	} {
		var err bytes.Buffer
		if got := run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: full{}, Err: &err}, strings.Fields(args)); got != exitRefused || !strings.Contains(err.String(), "no space left on device") {
			t.Errorf("stint %s: status %d, said %q", args, got, err.String())
		}
	}
}
