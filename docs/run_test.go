//go:build linux

package docs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

// mostNotRun is how many blocks may carry a reason not to run: a new one has to be argued for here.
// The gateway is a module of its own, whose libraries the place of a page does not have; a program that
// imports the library stands beside the clone.
const mostNotRun = 7

// presupposed is what some pages presuppose.
var presupposed = map[string]string{
	"memcached.md":            "memcached -M -m 64 -u root -l 127.0.0.1",
	"redis.md":                "redis-server --port 6379 --bind 127.0.0.1 --save '' --dir /tmp",
	"coordination-operate.md": "ip address add 10.0.0.1/32 dev lo",
}

// A block that takes longer hangs.
const longest = 30 * time.Second

// TestPages runs the commands of every page; with -short those of the README.
func TestPages(t *testing.T) {
	repository, err := filepath.Abs("..")
	testkit.Must(t, err)
	stint := filepath.Join(t.TempDir(), "stint")
	build := exec.Command("go", "build", "-o", stint, "./cmd/stint")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names, err := filepath.Glob("*.md")
	testkit.Must(t, err)
	ran, not := 0, 0
	for _, name := range append(names, "../README.md") {
		text, err := os.ReadFile(name)
		testkit.Must(t, err)
		all, faults := blocks(string(text))
		for _, fault := range faults {
			t.Errorf("%s: %s", name, fault)
		}
		for _, b := range all {
			if b.why != "" {
				not++
				t.Logf("not run: %s:%d: %s", name, b.line, b.why)
			} else {
				ran++
			}
		}
		if len(all) > 0 && (!testing.Short() || filepath.Base(name) == "README.md") {
			t.Run(filepath.Base(name), func(t *testing.T) {
				t.Parallel()
				runPage(t, repository, stint, name, all)
			})
		}
	}
	t.Logf("%d blocks that run, %d that do not", ran, not)
	if not > mostNotRun {
		t.Errorf("%d blocks are not run, and at most %d may be", not, mostNotRun)
	}
}

// A place is where a page runs.
type place struct {
	net    *testkit.Net
	folder string
	env    []string
}

// runPage runs the blocks of one page, in a place of its own.
func runPage(t *testing.T, repository, stint, name string, all []block) {
	p := newPlace(t, repository, stint, filepath.Base(name))
	if command := presupposed[filepath.Base(name)]; command != "" {
		p.mustRun(t, command)
	}
	if !strings.Contains(all[0].text, "make run") {
		p.mustRun(t, "stint serve --config examples/stint.yaml")
	}
	for _, b := range all {
		if b.why != "" {
			continue
		}
		if fault := p.block(t, b); fault != "" {
			t.Errorf("%s:%d: %s\n%s", name, b.line, fault, b.text)
		}
	}
}

// newPlace makes the folder of a page, and its network.
func newPlace(t *testing.T, repository, stint, page string) *place {
	folder, err := os.MkdirTemp("", "page") // short, for sockets
	testkit.Must(t, err)
	p := &place{net: testkit.NewNet(t), folder: folder}
	t.Cleanup(func() {
		p.stop(t)
		testkit.Must(t, os.RemoveAll(folder))
	})
	for _, dir := range []string{"bin", "pids", "work", "etc/stint", "var/lib/stint", "run/stint"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(folder, dir), 0o700))
	}
	entries, err := os.ReadDir(repository)
	testkit.Must(t, err)
	for _, e := range entries {
		testkit.Must(t, os.Symlink(filepath.Join(repository, e.Name()), filepath.Join(folder, "work", e.Name())))
	}
	stands, err := filepath.Abs("testdata/bin/stand-in")
	testkit.Must(t, err)
	for _, command := range []string{"stint", "go", "curl", "python3", "caddy", "redis-server", "memcached", "grpcurl"} {
		testkit.Must(t, os.Symlink(stands, filepath.Join(folder, "bin", command)))
	}
	testkit.Must(t, os.Symlink(filepath.Join(repository, "examples/rules/api.yaml"), filepath.Join(folder, "work/rules.yaml")))
	testkit.Must(t, os.Symlink(filepath.Join(repository, "examples/rules"), filepath.Join(folder, "etc/stint/rules")))
	if files := filepath.Join("testdata/pages", strings.TrimSuffix(page, ".md")); exists(files) {
		testkit.Must(t, os.RemoveAll(filepath.Join(folder, "work/rules.yaml")))
		testkit.Must(t, os.RemoveAll(filepath.Join(folder, "etc/stint/rules")))
		testkit.Must(t, os.CopyFS(folder, os.DirFS(files)))
	}
	p.env = append(os.Environ(), "PAGE="+folder, "STINT="+stint, "HOME="+folder,
		"PATH="+filepath.Join(folder, "bin")+":"+filepath.Join(repository, ".cache/bin")+":"+os.Getenv("PATH"))
	return p
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// stop ends what the page started, which prints what went wrong where the test failed.
func (p *place) stop(t *testing.T) {
	pids, _ := filepath.Glob(filepath.Join(p.folder, "pids/*"))
	for _, file := range pids {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		testkit.Must(t, err)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
		if log, err := os.ReadFile(filepath.Join(p.folder, filepath.Base(file)+".log")); err == nil && t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(file), log)
		}
	}
}

// mustRun runs what a page presupposes.
func (p *place) mustRun(t *testing.T, command string) {
	t.Helper()
	if out, errs, status := p.shell(t, command); status != 0 {
		t.Fatalf("%s: status %d\n%s%s", command, status, out, errs)
	}
}

// moved are the folders of the machine that pages name.
var moved = regexp.MustCompile(`/(etc|var/lib|run)/stint\b`)

// shell runs a script and returns what it prints.
func (p *place) shell(t *testing.T, script string) (out, errs string, status int) {
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-c", moved.ReplaceAllString(script, p.folder+"$0"))
	command.Dir, command.Env = filepath.Join(p.folder, "work"), p.env
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	// Files, and not pipes: what stays in the background keeps nobody waiting.
	files := [2]*os.File{}
	for i, name := range []string{"out", "errs"} {
		file, err := os.Create(filepath.Join(p.folder, name))
		testkit.Must(t, err)
		defer file.Close()
		files[i] = file
	}
	command.Stdout, command.Stderr = files[0], files[1]
	var err error
	p.net.Do(func() { err = command.Run() })
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	text := func(i int) string {
		data, err := os.ReadFile(files[i].Name())
		testkit.Must(t, err)
		return strings.ReplaceAll(string(data), p.folder+"/", "/")
	}
	return text(0), text(1), command.ProcessState.ExitCode()
}

// block runs a block and says what is wrong with it, "" where nothing is.
func (p *place) block(t *testing.T, b block) string {
	if b.console {
		return p.session(t, b)
	}
	written := filepath.Join(p.folder, "answers")
	testkit.Must(t, os.WriteFile(written, nil, 0o600))
	out, errs, status := p.shell(t, "set -euo pipefail\n"+b.text)
	if status != b.status {
		return fmt.Sprintf("ends with status %d, want %d:\n%s%s", status, b.status, out, errs)
	}
	heads, err := os.ReadFile(written)
	testkit.Must(t, err)
	if refused := regexp.MustCompile(`(?m)^HTTP/\S+ [45].*$`).Find(heads); refused != nil {
		return fmt.Sprintf("is answered %s:\n%s", bytes.TrimSpace(refused), out)
	}
	if b.printed != "" {
		if d := differs(b.printed, out); d != "" {
			return d + "; it printed:\n" + out
		}
	}
	return ""
}

// session runs a block of console.
func (p *place) session(t *testing.T, b block) string {
	const end = "\x00"
	shown := steps(b.text)
	var script strings.Builder
	script.WriteString("exec 2>&1; s=0\n")
	for _, s := range shown {
		fmt.Fprintf(&script, "(exit $s)\n%s\ns=$?; printf '\\0'\n", s.command)
	}
	script.WriteString("exit $s")
	out, _, status := p.shell(t, script.String())
	said := strings.Split(out, end)
	if len(said) != len(shown)+1 {
		return "ended before its last command:\n" + out
	}
	for i, s := range shown {
		if d := differs(s.printed, said[i]); d != "" && s.printed+said[i] != "" {
			return fmt.Sprintf("%s: %s; it printed:\n%s", strings.TrimSpace(s.command), d, said[i])
		}
	}
	if status != b.status {
		return fmt.Sprintf("ends with status %d, want %d", status, b.status)
	}
	return ""
}
