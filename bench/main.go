// Command bench compares Stint with others, all in one run: limiters in the memory of a Go program, clients that limit in Redis, and
// servers over RESP, gRPC and HTTP, each beside a floor, which is what the carrier alone costs.
//
//	go run . [-rounds 5] [-time 1s] [-only GROUP,...] [-out FILE] [-throttlecrab cargo|FILE] [-ratelimit FILE] [-limitador FILE] [-gubernator FILE]
//
// In each round all of a group have their turns, each round begins with another one, and a figure is a ratio to the
// floor of its group in the same round. The table has the smallest, the middle and the largest ratio. Each server is a process of
// its own on one processor, and the load comes from another; so it needs taskset and two processors, and also
// redis-server and redis-benchmark. The commands resp and rls beside it look at one server more closely.
//
// -throttlecrab cargo builds throttlecrab-server with cargo, once, into .cache of the repository; that needs protoc. The other
// servers of peers are programs that you name; the environment has the same as BENCH_THROTTLECRAB and so on.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stint/bench/contest"
)

// settings are the parameters of a run.
type settings struct {
	rounds int
	time   time.Duration
	flags  string // as given, for the page
	peers  peerPrograms
	dir    string // for files of the servers
	stint  contest.Stint
}

// peerPrograms are the programs of peers; "": that peer is left out.
type peerPrograms struct{ throttlecrab, ratelimit, limitador, gubernator string }

// groups are the comparisons, in the order of the table.
var groups = []struct {
	name    string
	compare func(ctx context.Context, s settings, r *results) error
}{
	{"libraries", libraries},
	{"redis", redisClients},
	{"resp", respServers},
	{"grpc", grpcServers},
	{"http", httpServers},
}

func main() {
	contest.ServeIfFloor()
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how often each is measured, at least 5")
	flag.DurationVar(&s.time, "time", time.Second, "how long to measure each in a round, at most 10s")
	only := flag.String("only", "", "groups, separated by commas: libraries, redis, resp, grpc, http; by default all")
	out := flag.String("out", "", "also write the page to this file")
	for _, p := range []struct {
		to   *string
		name string
	}{
		{&s.peers.throttlecrab, "throttlecrab"},
		{&s.peers.ratelimit, "ratelimit"},
		{&s.peers.limitador, "limitador"},
		{&s.peers.gubernator, "gubernator"},
	} {
		variable := "BENCH_" + strings.ToUpper(p.name)
		flag.StringVar(p.to, p.name, os.Getenv(variable), "program of this peer; by default $"+variable)
	}
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { s.flags += " -" + f.Name + " " + filepath.Base(f.Value.String()) })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := s.check()
	if err == nil {
		err = compareAll(ctx, s, *only, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// check returns an error for a run that is too short to say anything, or too long.
func (s *settings) check() error {
	if s.rounds < 5 || s.rounds > 100 || s.time <= 0 || s.time > 10*time.Second {
		return fmt.Errorf("-rounds %d is not 5 to 100, or -time %v not up to 10s", s.rounds, s.time)
	}
	return nil
}

// compareAll runs the groups, prints the table and writes the page.
func compareAll(ctx context.Context, s settings, only, out string) error {
	var chosen []string
	if only != "" {
		chosen = strings.Split(only, ",")
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "stint-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir) //nolint:errcheck // the system clears it
	if err := s.prepare(ctx); err != nil {
		return err
	}
	r := &results{busy: busy(), flags: s.flags, rounds: s.rounds, each: s.time, date: time.Now()}
	ran := 0
	for _, g := range groups {
		if len(chosen) > 0 && !slices.Contains(chosen, g.name) {
			continue
		}
		ran++
		fmt.Fprintln(os.Stderr, "measuring", g.name)
		if err := g.compare(ctx, s, r); err != nil {
			return fmt.Errorf("%s: %w", g.name, cmp.Or(ctx.Err(), err))
		}
	}
	if ran == 0 || ran < len(chosen) {
		return errors.New("-only names an unknown group")
	}
	r.versions = versions(ctx, s)
	r.writeTable(os.Stdout)
	if out == "" {
		return nil
	}
	var page strings.Builder
	r.writePage(&page)
	return os.WriteFile(out, []byte(page.String()), 0o644)
}
