package contest

import (
	"context"
	"encoding/csv"
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

// Rules have a limit so large that nothing is denied during a measurement. It is of the descriptor user in the domain bench.
const Rules = `domain: bench
descriptors:
  - key: user
    rate_limit: {requests: 30000000, per: 1m, algorithm: token_bucket, burst: 150000000}
`

// GCRA is the shortest script that decides by GCRA: the spacing and the burst in microseconds.
const GCRA = `local t=redis.call('TIME') local now=t[1]*1000000+t[2] local tat=math.max(now,tonumber(redis.call('GET',KEYS[1]) or 0))+ARGV[1]
if tat-ARGV[2]>now then return 0 end redis.call('SET',KEYS[1],tat,'PX',math.ceil((tat-now)/1000)) return 1`

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
func (p *Program) CPU() (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	if len(threads) == 0 {
		return 0, fmt.Errorf("%s has ended, or this system does not tell its processor time", p.cmd)
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

// BuildStint builds stint in a folder and writes a file with Rules beside it. The working directory is the folder bench.
func BuildStint(ctx context.Context, dir string) (program, rules string, err error) {
	program, rules = filepath.Join(dir, "stint"), filepath.Join(dir, "rules.yaml")
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "stint").Output()
	if err != nil {
		return "", "", fmt.Errorf("looking for the root module: %w; run this in the folder bench", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/stint") //nolint:gosec // our own arguments
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building stint: %w\n%s", err, out)
	}
	return program, rules, os.WriteFile(rules, []byte(Rules), 0o600)
}

// RedisBenchmark runs redis-benchmark on the processor of the load.
type RedisBenchmark struct {
	Address               string
	Requests, Connections int
	Pipeline              int
	Command               []string
}

// Args are the arguments of redis-benchmark.
func (b RedisBenchmark) Args() ([]string, error) {
	_, port, err := net.SplitHostPort(b.Address)
	return append([]string{
		"-p", port, "-n", strconv.Itoa(b.Requests), "-c", strconv.Itoa(b.Connections), "-P", strconv.Itoa(b.Pipeline), "-r", "10000", "--csv",
	}, b.Command...), err
}

// Run returns the commands per second, and the 99th percentile of their times in milliseconds.
func (b RedisBenchmark) Run(ctx context.Context) (rate, p99 float64, err error) {
	args, err := b.Args()
	if err != nil {
		return 0, 0, err
	}
	out, err := exec.CommandContext(ctx, "taskset", append([]string{"-c", LoadProcessor, "redis-benchmark"}, args...)...).Output() //nolint:gosec // our own arguments
	if err != nil {
		return 0, 0, err
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 7 {
		return 0, 0, fmt.Errorf("redis-benchmark printed %q: %w", out, err)
	}
	rate, errRate := strconv.ParseFloat(rows[1][1], 64)
	p99, errP99 := strconv.ParseFloat(rows[1][6], 64)
	return rate, p99, errors.Join(errRate, errP99)
}
