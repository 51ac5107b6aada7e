// Command resp measures `stint serve --resp` beside redis-server, and beside a server of redcon that
// answers PING, which is what the carrier alone costs.
//
//	go run ./resp [-rounds 5] [-requests 200000] [-connections 50]
//	go run ./resp -cores [-rounds 5]
//
// Each server is a process of its own on one processor, redis-benchmark asks from another, and they take
// turns, round by round. A figure is the median of the rounds, and a ratio the median of the ratios
// within a round. With -cores it measures what a second processor adds, in this process: clients in memory take
// nearly no time. It reads the processor's time, which only Linux tells, and needs redis-server, redis-benchmark and
// redis-cli (redis-tools), taskset and two processors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"stint/bench/contest"
)

// contender is one row of the table.
type contender struct {
	name, address string
	server        *contest.Program
	command       []string

	// By pipeline: commands in a second, the 99th percentile of the waits in ms, and the time of the
	// processor for a command in ns.
	rate, p99, spent map[int][]float64
}

// settings are the parameters of the measurement.
type settings struct{ rounds, requests, connections int }

var pipelines = []int{1, 16, 64}

func main() {
	contest.ServeIfFloor()
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how often each is measured")
	flag.IntVar(&s.requests, "requests", 200_000, "commands of a measurement; four times as many in pipelines")
	flag.IntVar(&s.connections, "connections", 50, "connections of the load")
	second := flag.Bool("cores", false, "measure what a second processor adds")
	flag.Parse()
	var err error
	if *second {
		err = cores(context.Background(), s.rounds)
	} else {
		err = compare(context.Background(), s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "resp:", err)
		os.Exit(1)
	}
}

// compare measures and prints the table.
func compare(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "stint-resp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears it
	var programs contest.Programs
	defer programs.Stop()
	list, err := contenders(ctx, &programs, dir)
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
func contenders(ctx context.Context, programs *contest.Programs, dir string) (list []*contender, err error) {
	build, err := contest.BuildStint(ctx, dir)
	if err != nil {
		return nil, err
	}
	redis, redisServer, errRedis := programs.Redis(ctx, dir)
	ping, pingServer, errPing := programs.Floor(ctx, "resp")
	ours, oursServer, errOurs := build.Serve(ctx, programs, "resp")
	if err := errors.Join(errRedis, errPing, errOurs); err != nil {
		return nil, err
	}
	sha, err := contest.LoadGCRA(ctx, redis)
	if err != nil {
		return nil, err
	}
	const key = "key:__rand_int__"
	add := func(name, address string, server *contest.Program, command ...string) {
		list = append(list, &contender{
			name: name, address: address, server: server, command: command,
			rate: map[int][]float64{}, p99: map[int][]float64{}, spent: map[int][]float64{},
		})
	}
	add("redis INCR, 10,000 keys", redis, redisServer, "INCR", key)
	add("redis EVALSHA of GCRA", redis, redisServer, "EVALSHA", sha, "1", key, "10", "100000000")
	add("redcon PING", ping, pingServer, "PING")
	add("stint PING", ours, oursServer, "PING")
	add("stint CL.THROTTLE, 10,000 keys", ours, oursServer, "CL.THROTTLE", key, "100000000", "1000000", "1")
	add("stint CL.THROTTLE, one key", ours, oursServer, "CL.THROTTLE", "hot", "100000000", "1000000", "1")
	add("stint CL.THROTTLE, 10,000 keys, denied", ours, oursServer, "CL.THROTTLE", "none:__rand_int__", "0", "1", "86400")
	add("stint CL.THROTTLE, one key, denied", ours, oursServer, "CL.THROTTLE", "denied", "0", "1", "86400")
	add("stint STINT.CHECK, 10,000 keys", ours, oursServer, "STINT.CHECK", "bench", "1", "user", key)
	return list, nil
}

// measure runs redis-benchmark once.
func (c *contender) measure(ctx context.Context, s settings, pipeline int) error {
	n := s.requests
	if pipeline > 1 {
		n *= 4
	}
	figures, err := contest.RedisBenchmark{Address: c.address, Requests: n, Connections: s.connections, Pipeline: pipeline, Command: c.command}.Run(ctx, c.server)
	if err != nil {
		return err
	}
	c.rate[pipeline] = append(c.rate[pipeline], figures.Rate)
	c.p99[pipeline] = append(c.p99[pipeline], figures.P99)
	c.spent[pipeline] = append(c.spent[pipeline], figures.CPU)
	return nil
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
