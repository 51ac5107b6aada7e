package programs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/text"
)

const (
	// patience is how long a process may take to be ready, or to end.
	patience = time.Minute

	// interval is the time between two checks for that.
	interval = 10 * time.Millisecond
)

// Command is a program to run.
type Command struct {
	// Path is the program, see Binary.
	Path string

	Args []string

	// Dir is the working folder; "": that of the test.
	Dir string

	// Env is added to the environment of the test. Variables STINT_... of the test are left out.
	Env []string

	// Ready reports whether the program is ready. It is called until it returns true.
	Ready func() bool
}

// Process is a program that runs for a test, and is killed at its end.
type Process struct {
	t       testing.TB
	command Command
	cmd     *exec.Cmd
	ended   chan struct{} // closed once cmd has ended
	log     text.OutputBuffer
}

// Binary returns the path of a program in PATH or among the Python packages of this repository. If
// it is not installed the test is skipped, or fails where SkipOrFail fails.
func Binary(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path := filepath.Join(root(), ".cache", "venv", "bin", name)
	if _, err := os.Stat(path); err != nil {
		testkit.SkipOrFail(t, "no "+name+"; scripts/install-test-deps.sh installs it")
	}
	return path
}

// root returns the folder of the repository.
func root() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "../../..")
}

// Run starts a program and returns once it is ready.
func Run(t testing.TB, c Command) *Process {
	t.Helper()
	p := &Process{t: t, command: c}
	t.Cleanup(p.kill)
	p.Start()
	return p
}

// Start starts a stopped process again, and returns once it is ready.
func (p *Process) Start() {
	p.t.Helper()
	p.cmd = exec.Command(p.command.Path, p.command.Args...)
	p.cmd.Dir = p.command.Dir
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STINT_") })
	p.cmd.Env = append(own, p.command.Env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	testkit.OwnGroup(p.cmd) // KillGroup then also ends its child processes
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended, cmd := make(chan struct{}), p.cmd
	p.ended = ended
	go func() {
		cmd.Wait() //nolint:errcheck // the log has the reason
		close(ended)
	}()
	err := poll(p.command.Ready, ended)
	if err != nil {
		p.t.Fatalf("%s %v: %v:\n%s", p.command.Path, p.command.Args, err, p.Log())
	}
}

// Until waits until holds returns true, and fails the test after a while.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if err := poll(holds, nil); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

var errEnded = errors.New("the process has ended")

// poll calls ready until it returns true, ended is closed, or patience is over.
func poll(ready func() bool, ended <-chan struct{}) error {
	ticker, deadline := time.NewTicker(interval), time.After(patience)
	defer ticker.Stop()
	for !ready() {
		select {
		case <-ended:
			return errEnded
		case <-deadline:
			return fmt.Errorf("not within %v", patience)
		case <-ticker.C:
		}
	}
	return nil
}

// Stop ends the process by SIGTERM, as an operator would. A second call does nothing.
func (p *Process) Stop() {
	p.t.Helper()
	p.do(testkit.Thaw)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Errorf("%s did not end within %v of SIGTERM:\n%s", p.command.Path, patience, p.Log())
		p.kill()
	}
}

// Freeze suspends the process, like a machine that hangs. Its connections stay open, and the kernel
// accepts new ones.
func (p *Process) Freeze() {
	p.t.Helper()
	p.do(testkit.Freeze)
	Until(p.t, "a process that stands still", func() bool { return stands(p.cmd.Process.Pid) })
}

// stands reports whether all threads of a process are suspended, on Linux: a thread may run for
// long after the signal was sent.
func stands(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if i := bytes.LastIndexByte(stat, ')'); err == nil && i+2 < len(stat) && stat[i+2] != 'T' {
			return false
		}
	}
	return true
}

// Thaw lets a frozen process run on.
func (p *Process) Thaw() { p.do(testkit.Thaw) }

// Reload sends SIGHUP, after which most programs reload their configuration.
func (p *Process) Reload() { p.signal(syscall.SIGHUP) }

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	p.do(func(process *os.Process) error { return process.Signal(s) })
}

// do calls what with the process, which may have ended.
func (p *Process) do(what func(*os.Process) error) {
	p.t.Helper()
	if err := what(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// kill ends the process and its child processes.
func (p *Process) kill() {
	if p.ended == nil {
		return
	}
	// The group's number is that of the process. It may have ended already.
	_ = testkit.KillGroup(p.cmd.Process)
	<-p.ended
}

// Log returns the output of the process.
func (p *Process) Log() string { return p.log.String() }
