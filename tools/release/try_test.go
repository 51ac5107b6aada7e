package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

// programsWithoutGo makes a folder with the few programs that the scripts need: Go is not among them.
func programsWithoutGo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"bash", "make", "env", "uname", "tr", "tar", "gzip", "mkdir", "rm", "dirname"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// try runs make try in a copy of the repository without Go, and returns what GET /demo answers and what the
// command prints. The status is 0 if the service does not start.
func try(t *testing.T, root, path string, args ...string) (status int, printed string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "t") // short, for the names of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(path, "make"), append([]string{"try"}, args...)...)
	cmd.Dir = root
	cmd.Env = []string{"PATH=" + path, "HOME=" + dir, "STINT_HTTP=unix:" + dir + "/h", "STINT_ADMIN=unix:" + dir + "/a"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	output := filepath.Join(dir, "output")
	out, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // make reports how its recipe ended
		close(ended)
	}()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", dir+"/h")
	}}}
	for running := true; running && status == 0; {
		answer, err := client.Get("http://stint/demo")
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			status = answer.StatusCode
			err = errors.Join(err, answer.Body.Close())
			if err != nil {
				t.Error(err)
			}
		}
		select {
		case <-ended:
			running = false
		case <-time.After(20 * time.Millisecond): // the process opens its socket by its own clock
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // unless it has ended
	<-ended
	data, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return status, string(data)
}

// TestTry runs make try on a machine without Go: with a release in dist, with a file, with an installed
// program, and with nothing.
func TestTry(t *testing.T) {
	m := built(t)
	root := filepath.Join(t.TempDir(), "a clone")
	if err := copied(root); err != nil {
		t.Fatal(err)
	}
	path := programsWithoutGo(t)
	if status, printed := try(t, root, path); status != 0 || !strings.Contains(printed, "no release in dist") || !strings.Contains(printed, "hint: make try RELEASE=") {
		t.Errorf("without anything: status %d: %s", status, printed)
	}
	archive := only(t, m.first, "_linux_amd64.tar.gz")
	if status, printed := try(t, root, path, "RELEASE="+archive); status != http.StatusOK || !strings.Contains(printed, archive) {
		t.Errorf("a file: status %d: %s", status, printed)
	}
	if status, printed := try(t, root, path, "RELEASE=no such.tar.gz"); status != 0 || !strings.Contains(printed, "a clone/no such.tar.gz: no such file") || !strings.Contains(printed, "hint: ") {
		t.Errorf("no such file: status %d: %s", status, printed)
	}
	testkit.Must(t, os.Mkdir(filepath.Join(root, "dist"), 0o755))
	command(t, "cp", archive, filepath.Join(root, "dist"))
	if status, printed := try(t, root, path); status != http.StatusOK || !strings.Contains(printed, "running dist/stint_"+first+"_linux_amd64.tar.gz") {
		t.Errorf("a release in dist: status %d: %s", status, printed)
	}
	if got := command(t, filepath.Join(root, ".cache/try/stint"), "version"); !strings.HasPrefix(got, "stint "+first+" ") {
		t.Errorf("it ran %s", got)
	}
	command(t, "cp", filepath.Join(root, ".cache/try/stint"), path) // installed
	testkit.Must(t, os.RemoveAll(filepath.Join(root, "dist")))
	if status, printed := try(t, root, path); status != http.StatusOK || !strings.Contains(printed, "running "+path+"/stint") {
		t.Errorf("an installed program: status %d: %s", status, printed)
	}
}

// TestBuildShowsProgress builds with a go that plays a first build of three packages, one with an error: on
// a terminal the script counts packages, elsewhere it prints what go prints.
func TestBuildShowsProgress(t *testing.T) {
	root := t.TempDir()
	path := programsWithoutGo(t)
	for _, name := range []string{"grep", "sleep"} {
		program, err := exec.LookPath(name)
		testkit.Must(t, err)
		testkit.Must(t, os.Symlink(program, filepath.Join(path, name)))
	}
	plays := `#!/usr/bin/env bash
case $1 in
list) printf 'a/b\n\ngolang.org/x/c_1\n\nstint/cmd/stint\n' ;;
build)
  for word in "$@"; do
    if [ "$word" = -v ]; then
      printf 'a/b\ngolang.org/x/c_1\n# stint/cmd/stint\ncmd/stint/main.go:1:2: it is wrong\nstint/cmd/stint\n' >&2
    fi
  done
  exit ${STATUS}
  ;;
esac
`
	testkit.Must(t, os.WriteFile(filepath.Join(path, "go"), []byte(plays), 0o700))
	testkit.Must(t, os.MkdirAll(filepath.Join(root, "scripts"), 0o755))
	command(t, "cp", "../../scripts/build.sh", filepath.Join(root, "scripts"))
	script, err := exec.LookPath("script")
	testkit.Must(t, err)
	for status, terminal := range map[string]bool{"0": true, "1": true, "2": false} {
		build := exec.Command(filepath.Join(root, "scripts/build.sh"))
		if terminal {
			build = exec.Command(script, "-qec", build.Path, "/dev/null")
		}
		build.Env = []string{"PATH=" + path, "STATUS=" + status, "SHELL=" + filepath.Join(path, "bash")}
		out, err := build.CombinedOutput()
		if exit, is := errors.AsType[*exec.ExitError](err); status == "0" && err != nil || status != "0" && (!is || exit.ExitCode() != int(status[0]-'0')) {
			t.Errorf("terminal %v: it ended with %v, want %s", terminal, err, status)
		}
		for _, part := range []string{"building: 1 of 3 packages", "building: 3 of 3 packages", "it is wrong", "\x1b[K"} {
			if strings.Contains(string(out), part) != terminal {
				t.Errorf("terminal %v: %q in %q", terminal, part, out)
			}
		}
		if strings.Contains(string(out), "\na/b") {
			t.Errorf("terminal %v: %q names packages", terminal, out)
		}
	}
}
