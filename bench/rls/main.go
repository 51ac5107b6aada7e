// Command rls measures `stint serve` answering Envoy's rate limit protocol, beside a
// grpc-go server that answers a constant, which is what the carrier alone costs.
//
//	go run ./rls [-rounds 7] [-time 1s] [-connections 4] [-streams 16] [-profile FILE]
//
// Each server is a process of its own on one processor, h2load asks from another, and
// they take turns, round by round. A figure is the median of the rounds, and a ratio the
// median of the ratios within a round. It needs h2load (nghttp2-client), taskset and two
// processors. On a machine that is busy with other things look at the processor time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"stint/bench/contest"
)

// settings are the parameters of the measurement.
type settings struct {
	rounds, connections, streams int
	time                         time.Duration
	profile                      string
}

func main() {
	contest.ServeIfFloor()
	var s settings
	flag.IntVar(&s.rounds, "rounds", 7, "how often each is measured")
	flag.DurationVar(&s.time, "time", time.Second, "how long to measure each in a round")
	flag.IntVar(&s.connections, "connections", 4, "connections of the load")
	flag.IntVar(&s.streams, "streams", 16, "calls in flight on each")
	flag.StringVar(&s.profile, "profile", "", "write a processor profile of stint, asked with one descriptor, to this file")
	flag.Parse()
	if err := compare(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "rls:", err)
		os.Exit(1)
	}
}

// contender is one row of the table.
type contender struct {
	name   string
	server *server
	body   string // file of the request
	rate   []float64
	cpu    []float64 // microseconds of the server's processor for each call
}

// compare measures and prints the table.
func compare(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "stint-rls-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears it
	var programs contest.Programs
	defer programs.Stop()
	servers, err := startServers(ctx, &programs, dir)
	if err != nil {
		return err
	}
	list, err := contenders(servers, dir)
	if err != nil {
		return err
	}
	for round := range s.rounds {
		for i := range list {
			// Each round begins with another one.
			if err := list[(i+round)%len(list)].measure(ctx, s); err != nil {
				return err
			}
		}
	}
	print(list, s)
	return profile(ctx, s, list)
}

// contenders returns the rows: first the server with a constant answer, to which the others are
// compared.
func contenders(servers []*server, dir string) ([]*contender, error) {
	var list []*contender
	for _, c := range []struct {
		name        string
		server      *server
		descriptors int
	}{
		{"grpc-go, a constant", servers[0], 1},
		{"grpc-go, a constant, 10 descriptors asked", servers[0], 10},
		{"stint, 1 descriptor", servers[1], 1},
		{"stint, 10 descriptors", servers[1], 10},
	} {
		body := filepath.Join(dir, fmt.Sprintf("request-%d", c.descriptors))
		if err := os.WriteFile(body, request(c.descriptors), 0o600); err != nil {
			return nil, err
		}
		if err := c.server.try(c.descriptors); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		list = append(list, &contender{name: c.name, server: c.server, body: body})
	}
	return list, nil
}

// measure measures one round and stores its figures.
func (c *contender) measure(ctx context.Context, s settings) error {
	before, err := c.server.program.CPU()
	if err != nil {
		return err
	}
	calls, rate, err := load(ctx, s, c.server.address, c.body)
	if err != nil {
		return err
	}
	after, err := c.server.program.CPU()
	if err != nil {
		return err
	}
	c.rate = append(c.rate, rate)
	c.cpu = append(c.cpu, float64(after-before)/float64(time.Microsecond)/float64(calls))
	return nil
}

// print prints the medians, and the medians of the ratios within each round.
func print(list []*contender, s settings) {
	fmt.Println("| | decisions/s | of the constant | us of processor | of the constant |\n|---|---|---|---|---|")
	for _, c := range list {
		fmt.Printf("| %s | %.0f | %.2f | %.2f | %.2f |\n", c.name, contest.Median(c.rate), contest.Ratio(c.rate, list[0].rate), contest.Median(c.cpu), contest.Ratio(c.cpu, list[0].cpu))
	}
	one, ten := list[2], list[3]
	fmt.Printf("\nOne descriptor: %.2f of the decisions of the constant (asked: 0.85). Ten: %.2f times the processor time of one, %.2f times by decisions (asked: at most 2).\n",
		contest.Ratio(one.rate, list[0].rate), contest.Ratio(ten.cpu, one.cpu), contest.Ratio(one.rate, ten.rate))
	fmt.Printf("h2load -c %d -m %d, %d rounds of %v, %s, %d processors.\n", s.connections, s.streams, s.rounds, s.time, runtime.Version(), runtime.NumCPU())
}

// profile takes a profile of stint under load.
func profile(ctx context.Context, s settings, list []*contender) error {
	if s.profile == "" {
		return nil
	}
	one := list[2]
	seconds := max(1, int(s.time/time.Second))
	fetch := exec.CommandContext(ctx, "curl", "-sf", "-H", "Authorization: Bearer "+profileToken, "-o", s.profile, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", one.server.admin, seconds))
	if err := fetch.Start(); err != nil {
		return err
	}
	if _, _, err := load(ctx, s, one.server.address, one.body); err != nil {
		return err
	}
	return fetch.Wait()
}
