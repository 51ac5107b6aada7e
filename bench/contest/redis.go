package contest

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
)

// GCRA is the shortest script that decides by GCRA: the spacing and the burst in microseconds.
const GCRA = `local t=redis.call('TIME') local now=t[1]*1000000+t[2] local tat=math.max(now,tonumber(redis.call('GET',KEYS[1]) or 0))+ARGV[1]
if tat-ARGV[2]>now then return 0 end redis.call('SET',KEYS[1],tat,'PX',math.ceil((tat-now)/1000)) return 1`

// LoadGCRA loads GCRA into a Redis and returns the script's digest for EVALSHA.
func LoadGCRA(ctx context.Context, address string) (string, error) {
	sha, err := redisCLI(ctx, address, "SCRIPT", "LOAD", GCRA)
	if err != nil {
		return "", fmt.Errorf("loading the script: %w", err)
	}
	return strings.TrimSpace(sha), nil
}

// redisCLI sends a command with redis-cli. An answer that is an error is an error.
func redisCLI(ctx context.Context, address string, command ...string) (string, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-e", "-p", port}, command...)...).CombinedOutput() //nolint:gosec // our own arguments
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", command[0], err, out)
	}
	return string(out), nil
}

// RedisBenchmark runs redis-benchmark on the processor of the load.
type RedisBenchmark struct {
	Address               string
	Requests, Connections int
	Pipeline              int
	Command               []string
}

// RedisFigures are the commands per second, the 99th percentile of their times in milliseconds, and the processor time of the server for a
// command in nanoseconds.
type RedisFigures struct{ Rate, P99, CPU float64 }

// Args are the arguments of redis-benchmark.
func (b RedisBenchmark) Args() ([]string, error) {
	_, port, err := net.SplitHostPort(b.Address)
	return append([]string{
		"-p", port, "-n", strconv.Itoa(b.Requests), "-c", strconv.Itoa(b.Connections), "-P", strconv.Itoa(b.Pipeline), "-r", "10000", "--csv",
	}, b.Command...), err
}

// Run measures one server. It sends the command once before, because redis-benchmark also counts answers that are errors.
func (b RedisBenchmark) Run(ctx context.Context, server *Program) (RedisFigures, error) {
	args, err := b.Args()
	if err != nil {
		return RedisFigures{}, err
	}
	if _, err := redisCLI(ctx, b.Address, b.Command...); err != nil {
		return RedisFigures{}, err
	}
	before, err := server.CPU()
	if err != nil {
		return RedisFigures{}, err
	}
	out, err := exec.CommandContext(ctx, "taskset", append([]string{"-c", LoadProcessor, "redis-benchmark"}, args...)...).Output() //nolint:gosec // our own arguments
	if err != nil {
		return RedisFigures{}, err
	}
	after, err := server.CPU()
	if err != nil {
		return RedisFigures{}, err
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 7 {
		return RedisFigures{}, fmt.Errorf("redis-benchmark printed %q: %w", out, err)
	}
	rate, errRate := strconv.ParseFloat(rows[1][1], 64)
	p99, errP99 := strconv.ParseFloat(rows[1][6], 64)
	return RedisFigures{rate, p99, float64(after-before) / float64(b.Requests)}, errors.Join(errRate, errP99)
}
