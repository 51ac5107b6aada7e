package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/tidwall/redcon"
	"google.golang.org/grpc"

	"stint/bench/contest"
	"stint/loadtest"
)

// serveFloor is the program of a floor: it answers a constant until it is killed.
func serveFloor(kind, address string) error {
	switch kind {
	case "resp":
		return redcon.ListenAndServe(address, func(c redcon.Conn, _ redcon.Command) { c.WriteString("PONG") }, nil, nil)
	case "grpc":
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		s := grpc.NewServer()
		rls.RegisterRateLimitServiceServer(s, constant{answer: &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}})
		return s.Serve(l)
	case "http":
		server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"allowed":true,"limit":150000000,"remaining":149999999,"retry_after_ms":0,"reset_after_ms":1}`)
		})}
		return server.ListenAndServe()
	}
	return fmt.Errorf("unknown floor %q", kind)
}

// constant allows every request.
type constant struct {
	rls.UnimplementedRateLimitServiceServer
	answer *rls.RateLimitResponse
}

// ShouldRateLimit returns the constant.
func (c constant) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return c.answer, nil
}

// prepare builds what the groups need.
func (s *settings) prepare(ctx context.Context) (err error) {
	if s.stint, s.rules, err = contest.BuildStint(ctx, s.dir); err != nil {
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

// serve starts a server with n free addresses, which args makes arguments of, and waits for the first address. If another program has taken one of
// them meanwhile, it starts the server again.
func serve(ctx context.Context, programs *contest.Programs, n int, args func(addresses []string) (env, args []string)) (address string, server *contest.Program, err error) {
	for range 3 {
		if address, server, err = serveOnce(ctx, programs, n, args); err == nil || ctx.Err() != nil {
			break
		}
	}
	return address, server, err
}

func serveOnce(ctx context.Context, programs *contest.Programs, n int, args func(addresses []string) (env, args []string)) (string, *contest.Program, error) {
	addresses := make([]string, n)
	for i := range addresses {
		var err error
		if addresses[i], err = contest.Free(); err != nil {
			return "", nil, err
		}
	}
	env, line := args(addresses)
	program, err := programs.Start(ctx, env, line...)
	if err != nil {
		return "", nil, err
	}
	return addresses[0], program, contest.WaitFor(ctx, program, addresses[0])
}

// floor starts the floor of a kind.
func floor(ctx context.Context, programs *contest.Programs, kind string) (string, *contest.Program, error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	return serve(ctx, programs, 1, func(a []string) (env, args []string) { return nil, []string{self, "floor", kind, a[0]} })
}

// stintServe starts stint with one listener.
func (s *settings) stintServe(ctx context.Context, programs *contest.Programs, listener string, further ...string) (string, *contest.Program, error) {
	return serve(ctx, programs, 1, func(a []string) (env, args []string) {
		args = []string{s.stint, "serve", "--rules", s.rules, "--log-level", "error"}
		for _, l := range []string{"http", "grpc", "resp", "admin"} {
			address := ""
			if l == listener {
				address = a[0]
			}
			args = append(args, "--"+l+"="+address)
		}
		return nil, append(args, further...)
	})
}

// throttlecrab starts throttlecrab-server with one transport. Its capacity is that of its own benchmarks.
func (s *settings) startThrottlecrab(ctx context.Context, programs *contest.Programs, transport string) (string, *contest.Program, error) {
	return serve(ctx, programs, 1, func(a []string) (env, args []string) {
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
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", contest.LoadProcessor, s.stint}, s.loadArgs(target, args...)...)...) //nolint:gosec // our own arguments
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
