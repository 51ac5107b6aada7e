// Package process starts programs for the examples, such as the service, and ends them with the example.
package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Patience is how long a process may take to be ready.
const Patience = 20 * time.Second

// Build writes the service to the file binary. The module stint has the libraries of the service.
func Build(ctx context.Context, binary string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Module.Dir}}", "stint/app").Output()
	if err != nil {
		return fmt.Errorf("no module stint: %w\nhint: run it in the repository of Stint, as go -C examples run does", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/stint")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the service: %w\n%s", err, out)
	}
	return nil
}

// Process is a running program. It ends with the example, on Linux even if the example is killed.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   output
}

// Start starts a program. The caller must call Kill.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	leash(cmd)
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STINT_") }) // flags have all settings
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the log has the reason
		close(p.ended)
	}()
	return p, nil
}

// Address returns the address of a listener of the service, "" until it listens.
func (p *Process) Address(listener string) string {
	for line := range strings.Lines(p.log.String()) {
		var entry struct{ Msg, Listener, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" && entry.Listener == listener {
			return entry.Address
		}
	}
	return ""
}

// Await returns once the process is ready.
func (p *Process) Await(ctx context.Context, ready func() bool) error {
	ctx, stop := context.WithTimeout(ctx, Patience)
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s has ended:\n%s", p.cmd.Path, p.log.String())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w:\n%s", p.cmd.Path, ctx.Err(), p.log.String())
		case <-tick.C:
		}
	}
	return nil
}

// Kill ends the process at once, like kill -9. A second call does nothing.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
}

// output keeps what a process prints.
type output struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String returns what was printed so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
