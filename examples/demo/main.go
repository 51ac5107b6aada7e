// Command demo starts three nodes that share a limit through one Redis, lets callers send far more
// than it allows, kills a node in the middle, and prints whether the limit was kept. It prints the
// address of the operators' page of a node, which shows all three. With -stay the page stays after the
// result.
//
//	make demo
//
// It counts allowed requests at the callers. The status is 0 if the limit was kept, 1 if it was not
// or the demo could not run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"stint/loadtest"
)

// The numbers of the limit, as in the rules below.
const (
	burst = 500
	rate  = 500
)

// rules are the rules of the nodes. Leases need no local share while Redis is away.
const rules = `
domain: demo
coordination: leased
on_store_failure: deny
descriptors:
  - key: user
    show: true
    rate_limit: {requests: 500, per: 1s, algorithm: token_bucket, burst: 500}
`

const (
	nodes   = 3
	killed  = 1 // index of the killed node
	callers = 4 // of each node
	pause   = 4 * time.Millisecond
)

func main() {
	lasts := flag.Duration("for", 8*time.Second, "how long the callers ask")
	binary := flag.String("stint", "", "the service; where nothing is said it is built")
	stay := flag.Duration("stay", 0, "how long the nodes and their page stay after the result; Ctrl-C ends it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, *binary, *lasts, *stay)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run runs the demo. All processes that it started have ended when it returns.
func run(ctx context.Context, out io.Writer, binary string, lasts, stay time.Duration) error {
	fmt.Fprintf(out, "Starting a Redis and %d nodes of Stint ...\n\n", nodes)
	f, err := startFleet(ctx, binary)
	defer f.stop()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The nodes share a limit through the Redis: %d requests at once, and %d a second.\n", burst, rate)
	fmt.Fprintf(out, "%d callers ask for more. Each node decides from what the Redis has lent it.\n\n", nodes*callers)
	fmt.Fprintf(out, "What they do is on the page %s\n\n", f.page())
	fmt.Fprintf(out, "%6.1f s  all nodes answer\n", 0.0)

	plan := loadtest.Fleet{
		Nodes: f.urls(), Callers: callers, Pause: pause, Each: int(lasts / pause),
		Questions: []string{loadtest.Question("demo", "user", "all", 1)},
	}
	loaded, end := context.WithTimeout(ctx, lasts)
	defer end()
	var record loadtest.FleetRecord
	done := make(chan error, 1)
	go func() {
		var err error
		record, err = plan.Run(loaded)
		done <- err
	}()
	select {
	case <-time.After(lasts / 2):
		f.nodes[killed].asks() // remember the value before the end
		f.nodes[killed].Kill()
		fmt.Fprintf(out, "%6.1f s  node %d is killed (kill -9); its callers go on at the others\n", (lasts / 2).Seconds(), killed+1)
	case <-loaded.Done():
	}
	if err := <-done; err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; all processes have ended")
	}
	fmt.Fprintf(out, "%6.1f s  the callers have enough\n\n", record.Took.Seconds())
	calls, err := loadtest.StoreCalls(f.socket)
	if err != nil {
		return err
	}
	table(out, f, &record)
	if err := judge(out, &record, calls); err != nil || stay <= 0 {
		return err
	}
	return remain(ctx, out, f, stay)
}

// remain starts the killed node again, and lets callers ask until the time or the context ends.
func remain(ctx context.Context, out io.Writer, f *fleet, stay time.Duration) error {
	if err := f.restart(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nNode %d is back. The callers go on, more slowly, for %v: see %s\nCtrl-C ends the demo.\n", killed+1, stay, f.page())
	const slow = 5 * pause // the record of all answers stays small
	plan := loadtest.Fleet{
		Nodes: f.urls(), Callers: callers, Pause: slow, Each: int(stay / slow),
		Questions: []string{loadtest.Question("demo", "user", "all", 1)},
	}
	ctx, end := context.WithTimeout(ctx, stay)
	defer end()
	_, err := plan.Run(ctx)
	return err
}

// table prints for each node the number of requests, of allowed ones, and of calls of Redis.
func table(out io.Writer, f *fleet, record *loadtest.FleetRecord) {
	row := func(name, asked, allowed, calls, says any) {
		line := fmt.Sprintf("%-12v%8v%10v%17v   %v", name, asked, allowed, calls, says)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	row("", "asked", "allowed", "calls of Redis", "")
	for i, n := range f.nodes {
		of := record.Of(func(a *loadtest.FleetAnswer) bool { return a.Node == i })
		says := ""
		if i == killed {
			says = "until shortly before it was killed"
		}
		row(fmt.Sprint("node ", i+1), len(of), loadtest.AllowedOf(of), n.asks(), says)
	}
	took := record.Took.Seconds()
	row("together", len(record.Answers), loadtest.AllowedOf(record.Answers), "", fmt.Sprintf("in %.1f s", took))
	row("the limit", "", int(burst+rate*took), "", fmt.Sprintf("%d at once, and %d in each second", burst, rate))
	fmt.Fprintln(out)
}

// judge prints the result. It returns an error if the limit was not kept.
func judge(out io.Writer, record *loadtest.FleetRecord, calls int) error {
	worst := loadtest.WorstOf(record.Answers, burst, rate)
	fmt.Fprintf(out, "Of all windows of time, short and long, the fullest is one of %.3f s: %d passed in it, %.0f may.\n",
		worst.Length.Seconds(), worst.Passed, worst.May)
	fmt.Fprintf(out, "Redis was called %d times for %d decisions, %.3f for each. Without leases every decision waits for it.\n",
		calls, len(record.Answers), float64(calls)/float64(max(1, len(record.Answers))))
	fmt.Fprintf(out, "Half of the answers took less than %v, 99 of 100 less than %v.\n",
		loadtest.PercentileOf(record.Answers, 50).Round(10*time.Microsecond), loadtest.PercentileOf(record.Answers, 99).Round(10*time.Microsecond))
	if record.Lost > 0 {
		fmt.Fprintf(out, "%d requests had no answer: they were at node %d when it was killed, or came to it later.\n", record.Lost, killed+1)
	}
	switch {
	case worst.Over() > 0.5: // times are rounded to microseconds, which are a fraction of a unit
		return fmt.Errorf("the limit did not hold: %.1f too many", worst.Over())
	case loadtest.AllowedOf(record.Answers) == len(record.Answers):
		fmt.Fprintf(out, "\nThe limit held, but nobody was refused: this machine is too busy to ask for more than %d a second.\n", rate)
	default:
		fmt.Fprintf(out, "\nThe limit held.\n")
	}
	return nil
}
