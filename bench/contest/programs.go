package contest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The processors: the servers share one, because only one of them works at a time, and the load has the other, if there is one.
var (
	ServerProcessor = "0"
	LoadProcessor   = strconv.Itoa(min(1, runtime.NumCPU()-1))
)

// Programs are the servers of a measurement. The zero value has none.
type Programs struct{ running []*Program }

// Program is a running server.
type Program struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// Start starts a program on the processor of the servers. Its Go runtime uses one thread; env has further variables.
func (p *Programs) Start(ctx context.Context, env []string, args ...string) (*Program, error) {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", ServerProcessor}, args...)...) //nolint:gosec // the user's own programs
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1"), env...)
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	Leash(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	one := &Program{cmd, make(chan struct{})}
	p.running = append(p.running, one)
	go func() {
		_ = cmd.Wait() // WaitFor reports a program that ends by itself
		close(one.ended)
	}()
	return one, nil
}

// Stop ends all programs.
func (p *Programs) Stop() {
	for _, one := range p.running {
		_ = one.cmd.Process.Kill() // it may have ended
		<-one.ended
	}
}

// CPU returns the processor time that the threads of the program have used, which only Linux tells.
func (p *Program) CPU() (time.Duration, error) { return CPU(p.cmd.Process.Pid) }

// CPU returns the processor time that the threads of a process have used, which only Linux tells.
func CPU(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	if len(threads) == 0 {
		return 0, fmt.Errorf("process %d has ended, or this system does not tell its processor time", pid)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // this thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, errParse := strconv.ParseInt(first, 10, 64)
		if err := errors.Join(err, errParse); err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// settled is how long a program that cannot listen needs to end.
const settled = 300 * time.Millisecond

// WaitFor waits until a program listens. It returns an error if the program ends, because the server that listens then is another one.
func WaitFor(ctx context.Context, p *Program, address string) error {
	var err error
	for range 200 {
		var c net.Conn
		if c, err = new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			err = c.Close()
			break
		}
		if p.endedWithin(50 * time.Millisecond) {
			break
		}
	}
	if p.endedWithin(settled) {
		return fmt.Errorf("%s has ended, and did not listen on %s", p.cmd, address)
	}
	return err
}

// endedWithin reports whether the program ends within a time.
func (p *Program) endedWithin(d time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(d):
		return false
	}
}
