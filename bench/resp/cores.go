package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"stint/bench/contest"
	"stint/facts"
	"stint/limiter"
	"stint/server/resp"
	"stint/store/memory"
	"stint/telemetry"
)

const (
	// memoryTime is how long each row is measured in a round.
	memoryTime = 300 * time.Millisecond

	// memoryPipeline is how many commands are sent at once, memoryPipelines how many such a connection sends in turn, and
	// memoryConnections how many connections a client has. There is a client for each processor.
	memoryPipeline    = 64
	memoryPipelines   = 8
	memoryConnections = 8

	// memoryTimes are the most measured times of a client.
	memoryTimes = 1 << 16
)

// loads are the rows of the table: the arguments of CL.THROTTLE before and after the key, and how many keys
// there are.
var loads = []struct {
	name, after string
	keys        int
}{
	{"10,000 keys", wire("100000000", "1000000", "1"), 10_000},
	{"10,000 keys, denied", wire("0", "1", "86400"), 10_000},
	{"one key", wire("100000000", "1000000", "1"), 1},
	{"one key, denied", wire("0", "1", "86400"), 1},
}

// wire returns arguments as clients send them.
func wire(args ...string) string {
	var b strings.Builder
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// client asks its connections in turn, each with one pipeline, until a time is over. It takes nearly no time of a processor. Like
// the loop of a client that waits for events it runs where its connections do: if every connection yielded after each pipeline
// instead, the Go runtime would pass all of them through one queue, and each pipeline to any processor.
type client struct {
	connections []*endless
	until       time.Time
	times       []time.Duration
}

// run asks the connections, and ends them.
func (c *client) run() {
	for n := 0; ; n++ {
		sent := time.Now()
		if sent.After(c.until) {
			break
		}
		one := c.connections[n%len(c.connections)]
		one.ask <- one.send[n/len(c.connections)%len(one.send)]
		<-one.answered
		c.times = append(c.times, time.Since(sent))
	}
	for _, one := range c.connections {
		close(one.ask)
	}
}

// endless is a connection of a client in memory.
type endless struct {
	net.Conn // nil: the server does not use the rest
	send     [][]byte
	ask      chan []byte // pipelines
	answered chan struct{}
	over     *atomic.Int64
}

// Read returns the next pipeline.
func (c *endless) Read(b []byte) (int, error) {
	pipeline, more := <-c.ask
	if !more {
		return 0, io.EOF
	}
	return copy(b, pipeline), nil
}

// Write takes the answers to a pipeline.
func (c *endless) Write(b []byte) (int, error) {
	c.answered <- struct{}{}
	return len(b), nil
}

// Close ends the connection.
func (c *endless) Close() error { c.over.Add(-1); return nil }

func (c *endless) RemoteAddr() net.Addr             { return nil }
func (c *endless) SetReadDeadline(time.Time) error  { return nil }
func (c *endless) SetWriteDeadline(time.Time) error { return nil }

// listener accepts the clients in memory.
type listener struct {
	clients chan net.Conn
	done    context.Context //nolint:containedctx // it ends the listener
	close   context.CancelFunc
}

// Accept returns the next client.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.clients:
		return c, nil
	case <-l.done.Done():
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *listener) Close() error { l.close(); return nil }

func (l *listener) Addr() net.Addr { return nil }

// cores measures what a second processor adds, with clients in memory, and prints the table.
func cores(ctx context.Context, rounds int) error {
	observer, err := facts.New(facts.Options{})
	if err != nil {
		return err
	}
	defer observer.Close() //nolint:errcheck // nothing is written
	s := resp.New(limiter.New(memory.New(memory.Options{}), nil, limiter.Options{Observer: both{telemetry.New(telemetry.NewRegistry()), observer}}), resp.Options{})
	l := &listener{clients: make(chan net.Conn)}
	l.done, l.close = context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	all := make([][2]measured, len(loads))
	err = measureLoads(l, rounds, all)
	s.Drain(ctx, 0, 0)
	if err = errors.Join(err, <-served); err != nil {
		return err
	}
	fmt.Printf("%-24s %20s %20s %12s %24s\n", "CL.THROTTLE in memory", "one processor", "two", "second adds", "time of a command")
	for i, row := range all {
		adds := 100 * (contest.Ratio(row[1].rate, row[0].rate) - 1)
		fmt.Printf("%-24s", loads[i].name)
		for _, m := range row {
			fmt.Printf("   %7.0f k/s %4.0f µs", contest.Median(m.rate)/1000, contest.Median(m.p99))
		}
		fmt.Printf(" %10.0f %% %9.0f ns, %6.0f ns\n", adds, contest.Median(row[0].spent), contest.Median(row[1].spent))
	}
	return nil
}

// measureLoads measures each load on one processor and on two, in turn.
func measureLoads(l *listener, rounds int, all [][2]measured) error {
	for range rounds {
		for i := range loads {
			for n := range 2 {
				if err := all[i][n].add(l, i, n+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// both are the observers that the service has.
type both [2]limiter.BatchObserver

// Decided passes a decision on.
func (b both) Decided(v *limiter.Verdict, took time.Duration, err error) {
	b[0].Decided(v, took, err)
	b[1].Decided(v, took, err)
}

// DecidedBatch passes the decisions of a batch on.
func (b both) DecidedBatch(all *limiter.Batch, took time.Duration, err error) {
	b[0].DecidedBatch(all, took, err)
	b[1].DecidedBatch(all, took, err)
}

// measured are the figures of the rounds: commands in a second, the time of the processors for each in ns,
// and the 99th percentile of the time of a pipeline in µs.
type measured struct{ rate, spent, p99 []float64 }

// add measures load number i on n processors.
func (m *measured) add(l *listener, i, n int) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	var over atomic.Int64
	clients := make([]*client, n)
	for k := range clients {
		clients[k] = &client{times: make([]time.Duration, 0, memoryTimes)}
		for range memoryConnections {
			clients[k].connections = append(clients[k].connections, &endless{send: pipelinesOf(i), ask: make(chan []byte, 1), answered: make(chan struct{}, 1), over: &over})
		}
	}
	over.Store(int64(n * memoryConnections))
	before, err := contest.CPU(os.Getpid())
	if err != nil {
		return err
	}
	began := time.Now()
	for _, c := range clients {
		c.until = began.Add(memoryTime)
		for _, one := range c.connections {
			l.clients <- one
		}
		go c.run()
	}
	for over.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	took := time.Since(began)
	after, err := contest.CPU(os.Getpid())
	if err != nil {
		return err
	}
	var times []time.Duration
	for _, c := range clients {
		times = append(times, c.times...)
	}
	slices.Sort(times)
	commands := float64(len(times) * memoryPipeline)
	m.rate = append(m.rate, commands/took.Seconds())
	m.spent = append(m.spent, float64(after-before)/commands)
	m.p99 = append(m.p99, float64(times[len(times)*99/100])/1000)
	return nil
}

// pipelinesOf returns what a client of load number i sends, in turn.
func pipelinesOf(i int) (all [][]byte) {
	for range memoryPipelines {
		var b strings.Builder
		for range memoryPipeline {
			b.WriteString("*5\r\n" + wire("CL.THROTTLE", "key:"+strconv.Itoa(1_000_000*(i+1)+rand.IntN(loads[i].keys))) + loads[i].after)
		}
		all = append(all, []byte(b.String()))
	}
	return all
}
