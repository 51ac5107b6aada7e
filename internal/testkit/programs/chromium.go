package programs

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// Browse opens a page in Chromium, lets it run for some seconds of virtual time, and returns its
// DOM at the end and its console output. more are further flags of Chromium.
func Browse(t *testing.T, url string, more ...string) (dom, console string) {
	t.Helper()
	program := chromiumPath(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	args := append(chromiumFlags(t), "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom")
	cmd := exec.CommandContext(ctx, program, append(append(args, more...), url)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, ":CONSOLE") {
			console += line
		}
	}
	return out.String(), console
}

// chromiumPath returns the path of Chromium.
func chromiumPath(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	testkit.SkipOrFail(t, "no chromium in the path; make deps installs it")
	return ""
}

// chromiumFlags returns the flags of a Chromium without a window that calls nobody by itself.
func chromiumFlags(t testing.TB) []string {
	return []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir=" + filepath.Join(t.TempDir(), "profile"),
	}
}
