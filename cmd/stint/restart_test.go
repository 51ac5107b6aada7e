package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A long run sets a higher value.
var restarts = flag.Int("restarts", 3, "how often TestRestartsLoseNothing ends a node; once in short mode")

// restartRules has a limit that is too large to be used up.
const restartRules = `domain: api
descriptors:
  - key: user
    rate_limit: {requests: 1000000, per: 366d}
`

// thinking has the pause of each client between two requests, all below the drain delay, which is a
// second.
var thinking = []time.Duration{0, 0, 0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond}

// keepAlives are clients that each send requests on one connection as long as the server keeps it.
type keepAlives struct {
	addr                                 atomic.Pointer[string] // of the current node
	stop                                 atomic.Bool
	requests, lost, undecodable, refused atomic.Int64 // undecodable: of them, the first of a connection
	last                                 atomic.Pointer[error]
	clients                              sync.WaitGroup
}

// move makes clients use a node from their next connection on.
func (k *keepAlives) move(n *node) {
	addr := strings.TrimPrefix(n.http, "http://")
	k.addr.Store(&addr)
}

// ask sends requests of one client until the test stops it.
func (k *keepAlives) ask(think time.Duration) {
	for !k.stop.Load() {
		conn, err := net.Dial("tcp", *k.addr.Load())
		if err != nil {
			k.refused.Add(1)
			pass(time.Millisecond)
			continue
		}
		k.use(conn, think)
		conn.Close()
	}
}

// use sends requests on a connection until a response ends it.
func (k *keepAlives) use(conn net.Conn, think time.Duration) {
	const body = `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"x"}]}]}`
	answers := bufio.NewReader(conn)
	for first := true; !k.stop.Load(); first = false {
		k.requests.Add(1)
		ends, err := func() (bool, error) {
			if _, err := fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				return false, err
			}
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				return false, err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
			return resp.Close, err
		}()
		if err != nil {
			k.last.Store(&err)
			k.lost.Add(1)
			if first {
				k.undecodable.Add(1)
			}
		}
		if err != nil || ends {
			return
		}
		if think > 0 {
			pass(think)
		}
	}
}

// Processes end and start anew while eight clients keep connections to them alive. Every request on
// a connection that a process accepted gets a response, and each process ends in time.
func TestRestartsLoseNothing(t *testing.T) {
	rounds, clients := *restarts, thinking
	if testing.Short() {
		rounds, clients = 1, thinking[:7]
	}
	var k keepAlives
	n := startNode(t, restartRules, "--resp=")
	k.move(n)
	for _, think := range clients {
		k.clients.Go(func() { k.ask(think) })
	}
	defer k.clients.Wait()
	defer k.stop.Store(true)
	var slowest time.Duration
	for range rounds {
		pass(200 * time.Millisecond) // under load
		n.ended = true
		began := time.Now()
		if err := n.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-n.process.ended:
			if err != nil {
				t.Fatalf("the end: %v\n%s", err, n.log())
			}
		case <-time.After(patience):
			t.Fatalf("no end:\n%s", n.log())
		}
		slowest = max(slowest, time.Since(began))
		n = startNode(t, restartRules, "--resp=")
		k.move(n)
	}
	pass(100 * time.Millisecond) // under load
	k.stop.Store(true)
	k.clients.Wait()
	t.Logf("%d restarts: of %d requests %d got no answer (%d of them the first of a connection), %d connects were refused; the slowest end took %v",
		rounds, k.requests.Load(), k.lost.Load(), k.undecodable.Load(), k.refused.Load(), slowest.Round(time.Millisecond))
	// The system may have accepted a connection that the process did not accept before it closed
	// the listener. Its first request counts like a refused connection.
	if lost := k.lost.Load() - k.undecodable.Load(); lost > 0 {
		t.Errorf("%d requests got no answer on connections that had been used, such as %v", lost, *k.last.Load())
	}
	if slowest > 2*slack*time.Second {
		t.Errorf("an end took %v", slowest)
	}
}
