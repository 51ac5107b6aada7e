package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"stint/bench/contest"
	"stint/loadtest"
)

// prepare builds what the groups need.
func (s *settings) prepare(ctx context.Context) (err error) {
	if s.stint, err = contest.BuildStint(ctx, s.dir); err != nil {
		return err
	}
	if s.peers.throttlecrab == "cargo" {
		s.peers.throttlecrab, err = buildThrottlecrab(ctx)
	}
	return err
}

// The version of throttlecrab-server that is compared, and how long cargo may build it.
const (
	throttlecrabVersion = "0.4.40"
	mostBuild           = 40 * time.Minute
)

// buildThrottlecrab returns throttlecrab-server in .cache, which it builds if it is not there; "" without cargo or protoc.
func buildThrottlecrab(ctx context.Context) (string, error) {
	root, err := filepath.Abs("../.cache/throttlecrab")
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "bin", "throttlecrab-server")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	cargo, err := findCargo()
	if _, errProtoc := exec.LookPath("protoc"); err != nil || errProtoc != nil {
		fmt.Fprintln(os.Stderr, "throttlecrab-server is left out: building it needs cargo and protoc (protobuf-compiler)")
		return "", nil //nolint:nilerr // peers are left out where their tools are not there
	}
	fmt.Fprintln(os.Stderr, "building throttlecrab-server; some minutes, once")
	ctx, cancel := context.WithTimeout(ctx, mostBuild)
	defer cancel()
	cmd := exec.CommandContext(ctx, cargo, "install", "throttlecrab-server", "--version", throttlecrabVersion, "--locked", "--root", root) //nolint:gosec // our own arguments
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building throttlecrab-server: %w\n%s", err, out)
	}
	return program, nil
}

// findCargo returns cargo: of the PATH, or where rustup installs it.
func findCargo() (string, error) {
	if path, err := exec.LookPath("cargo"); err == nil {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return exec.LookPath(filepath.Join(home, ".cargo", "bin", "cargo"))
}

// startThrottlecrab starts throttlecrab-server with one transport. Its capacity is that of its own benchmarks.
func (s *settings) startThrottlecrab(ctx context.Context, programs *contest.Programs, transport string) (string, *contest.Program, error) {
	return programs.Serve(ctx, 1, func(a []string) (env, args []string) {
		host, port, _ := net.SplitHostPort(a[0])
		return []string{"TOKIO_WORKER_THREADS=1"}, []string{
			s.peers.throttlecrab, "--" + transport, "--" + transport + "-host", host, "--" + transport + "-port", port,
			"--store", "adaptive", "--store-capacity", "1000000", "--log-level", "error",
		}
	})
}

// loadArgs are the arguments of stint bench load for a closed loop of many workers.
func (s *settings) loadArgs(target string, args ...string) []string {
	return append([]string{"bench", "load", "--json", "--workers", "64", "--keys", "10000", "--spread", "uniform", "--duration", s.time.String(), target}, args...)
}

// load asks a server with stint bench load, from another processor. Nothing may be denied.
func (s *settings) load(ctx context.Context, server *contest.Program, target string, args ...string) (map[column]float64, error) {
	before, err := server.CPU()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", contest.LoadProcessor, s.stint.Program}, s.loadArgs(target, args...)...)...) //nolint:gosec // our own arguments
	contest.Leash(cmd)
	out, err := cmd.Output()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return nil, fmt.Errorf("stint bench load: %w\n%s%s", err, exit.Stderr, out)
	}
	if err != nil {
		return nil, err
	}
	after, err := server.CPU()
	if err != nil {
		return nil, err
	}
	var report loadtest.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, err
	}
	if report.Denied+report.Errors > 0 || report.Allowed == 0 {
		return nil, fmt.Errorf("%d allowed, %d denied, %d errors %v", report.Allowed, report.Denied, report.Errors, report.ErrorKinds)
	}
	return map[column]float64{perSecond: report.PerSecond, perAnswer: float64(after-before) / float64(report.Allowed)}, nil
}

// line returns how a load was made, for the page.
func (s *settings) line(target string, args ...string) string {
	quoted := []string{"stint"}
	for _, a := range s.loadArgs(target, args...) {
		if strings.ContainsAny(a, ` "{`) {
			a = "'" + a + "'"
		}
		quoted = append(quoted, a)
	}
	return strings.Join(quoted, " ")
}
