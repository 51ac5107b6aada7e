// Package program runs stint-gateway as a process in tests.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/text"
)

// path is the path of stint-gateway, which Main sets.
var path string

// Main runs the tests of a package with stint-gateway, built once for all of them, and returns the exit
// status for TestMain.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stint-gateway")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path = filepath.Join(dir, "stint-gateway")
	if out, err := exec.Command("go", "build", "-o", path, "stint/gateway/cmd/stint-gateway").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// Path returns the path of stint-gateway.
func Path() string { return path }

// Write writes a file, all at once.
func Write(t testing.TB, path, content string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path+".new", []byte(content), 0o600))
	testkit.Must(t, os.Rename(path+".new", path))
}

// Running is a process that ends with its test.
type Running struct {
	Process *os.Process
	Ended   <-chan struct{}    // closed when the process has ended
	Log     *text.OutputBuffer // what it wrote
	Err     error              // how it ended, once it has; nil: with status 0
}

// Start starts a process. Its log is shown if the test fails.
func Start(t testing.TB, cmd *exec.Cmd) *Running {
	t.Helper()
	log, ended := new(text.OutputBuffer), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	testkit.Must(t, cmd.Start())
	r := &Running{Process: cmd.Process, Ended: ended, Log: log}
	go func() {
		r.Err = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			t.Logf("the log of %v:\n%s", cmd.Args, log)
		}
	})
	return r
}

// Stop ends the process, after 20 s by force.
func (r *Running) Stop() {
	_ = r.Process.Signal(syscall.SIGTERM) // it may have ended
	stuck := time.AfterFunc(20*time.Second, func() { _ = r.Process.Kill() })
	<-r.Ended
	stuck.Stop()
}

// Await waits at most 20 s for a text in the log.
func (r *Running) Await(t testing.TB, want string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		log, more := r.Log.Follow()
		if strings.Contains(log, want) {
			return
		}
		select {
		case <-more:
		case <-r.Ended:
			t.Fatalf("the process ended without %q:\n%s", want, r.Log)
		case <-deadline:
			t.Fatalf("no %q in the log:\n%s", want, r.Log)
		}
	}
}

// Gateway is stint-gateway with a folder of its own. It runs after Run.
type Gateway struct {
	// T gets faults. A test with subtests sets that of the present one.
	T testing.TB

	// Dir is the folder. DIR in its files stands for it.
	Dir string

	// Values are further texts in files and what stands for them, in pairs, as for strings.NewReplacer.
	Values []string

	*Running // nil: it was never started
}

// New returns a gateway that does not run. values become its Values.
func New(t testing.TB, values ...string) *Gateway {
	t.Helper()
	return &Gateway{T: t, Dir: t.TempDir(), Values: values}
}

// Write writes a file in the folder.
func (g *Gateway) Write(name, content string) {
	g.T.Helper()
	// Values may contain DIR.
	content = strings.NewReplacer(g.Values...).Replace(content)
	Write(g.T, filepath.Join(g.Dir, name), strings.ReplaceAll(content, "DIR", g.Dir))
}

// Read returns the content of a file in the folder.
func (g *Gateway) Read(name string) string {
	g.T.Helper()
	data, err := os.ReadFile(filepath.Join(g.Dir, name))
	testkit.Must(g.T, err)
	return string(data)
}

// Command returns a command of stint-gateway in the folder.
func (g *Gateway) Command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(g.T.Context(), path, args...)
	cmd.Dir = g.Dir
	cmd.Env = append(os.Environ(), "HOME="+g.Dir, "XDG_DATA_HOME="+g.Dir, "XDG_CONFIG_HOME="+g.Dir)
	return cmd
}

// Run starts the gateway with the file Caddyfile, and waits until it serves.
func (g *Gateway) Run() {
	g.T.Helper()
	cmd := g.Command("run", "--config", "Caddyfile")
	cmd.Cancel = func() error { return nil } // Start ends it
	g.Running = Start(g.T, cmd)
	g.Await("serving initial configuration")
}

// Await waits at most 20 s for a text in the log.
func (g *Gateway) Await(want string) {
	g.T.Helper()
	g.Running.Await(g.T, want)
}
