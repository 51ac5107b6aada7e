// Command resp measures `stint serve --resp` beside redis-server, and beside a server of redcon that
// answers PING, which is what the carrier alone costs.
//
//	go run ./resp [-rounds 5] [-requests 200000] [-connections 50]
//	go run ./resp -cores [-rounds 5]
//
// Each server is a process of its own on one processor, redis-benchmark asks from another, and they take
// turns, round by round. A figure is the median of the rounds, and a ratio the median of the ratios
// within a round. With -cores it measures what a second processor adds, in this process: clients in memory take
// nearly no time. It needs redis-server, redis-benchmark (redis-tools), taskset and two processors.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"stint/bench/contest"
)

// The processors: the servers share one, because only one of them works at a time.
const (
	serverProcessor = "0"
	loadProcessor   = "1"
)

// gcra is the shortest script that decides by GCRA: the spacing and the burst in microseconds.
const gcra = `local t=redis.call('TIME') local now=t[1]*1000000+t[2] local tat=math.max(now,tonumber(redis.call('GET',KEYS[1]) or 0))+ARGV[1]
if tat-ARGV[2]>now then return 0 end redis.call('SET',KEYS[1],tat,'PX',math.ceil((tat-now)/1000)) return 1`

const rules = `domain: bench
descriptors:
  - key: user
    rate_limit: {requests: 30000000, per: 1m, algorithm: token_bucket, burst: 150000000}
`

// contender is one row of the table.
type contender struct {
	name, address string
	command       []string
	process       int

	// By pipeline: commands in a second, the 99th percentile of the waits in ms, and the time of the
	// processor for a command in ns.
	rate, p99, spent map[int][]float64
}

// settings are the parameters of the measurement.
type settings struct{ rounds, requests, connections int }

var pipelines = []int{1, 16, 64}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how often each is measured")
	flag.IntVar(&s.requests, "requests", 200_000, "commands of a measurement; four times as many in pipelines")
	flag.IntVar(&s.connections, "connections", 50, "connections of the load")
	second := flag.Bool("cores", false, "measure what a second processor adds")
	ping := flag.String("ping", "", "be the server that answers PING, at this address")
	flag.Parse()
	var err error
	switch {
	case *ping != "":
		err = servePing(*ping)
	case *second:
		err = cores(context.Background(), s.rounds)
	default:
		err = compare(context.Background(), s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "resp:", err)
		os.Exit(1)
	}
}

// servePing answers PONG to every command.
func servePing(address string) error {
	return redcon.ListenAndServe(address, func(c redcon.Conn, _ redcon.Command) { c.WriteString("PONG") }, nil, nil)
}

// compare measures and prints the table.
func compare(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "stint-resp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears it
	list, stop, err := contenders(ctx, dir)
	defer stop()
	if err != nil {
		return err
	}
	for round := range s.rounds {
		for i := range list {
			c := list[(i+round)%len(list)] // each round begins with another one
			for _, p := range pipelines {
				if err := c.measure(ctx, s, p); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
		}
	}
	show(list)
	return nil
}

// contenders starts the servers, and returns the rows of the table.
func contenders(ctx context.Context, dir string) (list []*contender, stop func(), err error) {
	var running []*exec.Cmd
	processes := map[string]int{} // by address
	stop = func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	start := func(address string, args ...string) error {
		cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", serverProcessor}, args...)...) //nolint:gosec // our own arguments
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		contest.Leash(cmd)
		if err := cmd.Start(); err != nil {
			return err
		}
		running, processes[address] = append(running, cmd), cmd.Process.Pid
		return nil
	}
	stint, file := filepath.Join(dir, "stint"), filepath.Join(dir, "rules.yaml")
	if out, err := exec.CommandContext(ctx, "go", "-C", "..", "build", "-o", stint, "./cmd/stint").CombinedOutput(); err != nil { //nolint:gosec // our own arguments
		return nil, stop, fmt.Errorf("building stint: %w\n%s", err, out)
	}
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return nil, stop, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, stop, err
	}
	redis, errRedis := contest.Free()
	ping, errPing := contest.Free()
	ours, errOurs := contest.Free()
	if err := errors.Join(errRedis, errPing, errOurs); err != nil {
		return nil, stop, err
	}
	_, redisPort, _ := net.SplitHostPort(redis)
	err = errors.Join(
		start(redis, "redis-server", "--port", redisPort, "--bind", "127.0.0.1", "--save", "", "--dir", dir),
		start(ping, self, "-ping", ping),
		start(ours, stint, "serve", "--rules", file, "--http", "", "--grpc", "", "--admin", "", "--resp", ours, "--log-level", "error"),
	)
	for _, address := range []string{redis, ping, ours} {
		err = errors.Join(err, wait(ctx, address))
	}
	if err != nil {
		return nil, stop, err
	}
	sha, err := exec.CommandContext(ctx, "redis-cli", "-p", redisPort, "SCRIPT", "LOAD", gcra).Output() //nolint:gosec // our own arguments
	if err != nil {
		return nil, stop, fmt.Errorf("loading the script: %w", err)
	}
	const key = "key:__rand_int__"
	add := func(name, address string, command ...string) {
		list = append(list, &contender{
			name: name, address: address, command: command, process: processes[address],
			rate: map[int][]float64{}, p99: map[int][]float64{}, spent: map[int][]float64{},
		})
	}
	add("redis INCR, 10,000 keys", redis, "INCR", key)
	add("redis EVALSHA of GCRA", redis, "EVALSHA", strings.TrimSpace(string(sha)), "1", key, "10", "100000000")
	add("redcon PING", ping, "PING")
	add("stint PING", ours, "PING")
	add("stint CL.THROTTLE, 10,000 keys", ours, "CL.THROTTLE", key, "100000000", "1000000", "1")
	add("stint CL.THROTTLE, one key", ours, "CL.THROTTLE", "hot", "100000000", "1000000", "1")
	add("stint CL.THROTTLE, 10,000 keys, denied", ours, "CL.THROTTLE", "none:__rand_int__", "0", "1", "86400")
	add("stint CL.THROTTLE, one key, denied", ours, "CL.THROTTLE", "denied", "0", "1", "86400")
	add("stint STINT.CHECK, 10,000 keys", ours, "STINT.CHECK", "bench", "1", "user", key)
	return list, stop, nil
}

// wait waits until a server listens.
func wait(ctx context.Context, address string) error {
	var err error
	for range 100 {
		var c net.Conn
		if c, err = new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// measure runs redis-benchmark once.
func (c *contender) measure(ctx context.Context, s settings, pipeline int) error {
	n := s.requests
	if pipeline > 1 {
		n *= 4
	}
	_, port, err := net.SplitHostPort(c.address)
	if err != nil {
		return err
	}
	args := append([]string{
		"-c", loadProcessor, "redis-benchmark", "-p", port, "-n", strconv.Itoa(n), "-c", strconv.Itoa(s.connections), "-P", strconv.Itoa(pipeline), "-r", "10000", "--csv",
	}, c.command...)
	before := contest.Spent(c.process)
	out, err := exec.CommandContext(ctx, "taskset", args...).Output() //nolint:gosec // our own arguments
	if err != nil {
		return err
	}
	c.spent[pipeline] = append(c.spent[pipeline], float64(contest.Spent(c.process)-before)/float64(n))
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 7 {
		return fmt.Errorf("redis-benchmark printed %q: %w", out, err)
	}
	rate, err := strconv.ParseFloat(rows[1][1], 64)
	if err != nil {
		return err
	}
	p99, err := strconv.ParseFloat(rows[1][6], 64)
	c.rate[pipeline] = append(c.rate[pipeline], rate)
	c.p99[pipeline] = append(c.p99[pipeline], p99)
	return err
}

// show prints the table: the ratios are to redis INCR and to redcon PING. Those of the processor's time are
// the better ones where others use the machine.
func show(list []*contender) {
	incr, ping := list[0], list[2]
	for _, p := range pipelines {
		fmt.Printf("%-38s  %10s  %7s  %7s  %7s  %9s  %7s  %7s\n", "pipelines of "+strconv.Itoa(p), "thousand/s", "p99 ms", "to INCR", "to PING", "processor", "to INCR", "to PING")
		for _, c := range list {
			fmt.Printf("%-38s  %10.0f  %7.2f  %7.2f  %7.2f  %6.0f ns  %7.2f  %7.2f\n", c.name,
				contest.Median(c.rate[p])/1000, contest.Median(c.p99[p]), contest.Ratio(c.rate[p], incr.rate[p]), contest.Ratio(c.rate[p], ping.rate[p]),
				contest.Median(c.spent[p]), contest.Ratio(incr.spent[p], c.spent[p]), contest.Ratio(ping.spent[p], c.spent[p]))
		}
	}
}
