package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// With each node in a network of its own, with one cable to Redis and one to its callers, no window
// ever lets more pass than the limit: while one node, and then half of the nodes, lose Redis for
// longer than a lease, while Redis is emptied meanwhile, and over bad cables.
func TestNodesLeasedApart(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	calm, long := 1500*time.Millisecond, 4*time.Second
	if testing.Short() {
		calm, long = 300*time.Millisecond, time.Second
	}
	for name, policy := range map[string]string{"deny": lentDeny, "local": lentLocal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, cables, flush := startApart(t, fmt.Sprintf(leasedRules, policy))
			half := cables[:len(cables)/2]
			r := drill(t, nodes)
			r.through([]fault{
				{"nothing", func() {}},
				{"a node is cut off", func() { cables[0].Cut(); pass(long); cables[0].Mend() }},
				{"half of them are", func() { each(half, (*testkit.Link).Cut); pass(long); each(half, (*testkit.Link).Mend) }},
				{"and Redis is emptied", func() {
					each(half, (*testkit.Link).Cut)
					pass(calm)
					flush()
					pass(calm)
					each(half, (*testkit.Link).Mend)
				}},
				{"bad cables", func() {
					how := "neither netem nor tbf"
					each(cables, func(l *testkit.Link) { how = l.Worsen() })
					t.Log("all cables to Redis: " + how)
					pass(long)
				}},
			}, calm)
		})
	}
}

// startApart starts Redis in a network and eight nodes in networks around it. Each node has two
// cables: one to Redis, which startApart returns, and one for its callers.
func startApart(t *testing.T, rules string) (nodes []*node, cables []*testkit.Link, flush func()) {
	hub := testkit.NewNet(t)
	var server *testkit.RedisServer
	hub.Do(func() { server = testkit.StartRedis(t, "--bind", "0.0.0.0", "--protected-mode", "no") })
	_, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodeCount {
		own := testkit.NewNet(t)
		store, callers := hub.Link(2*i, own), hub.Link(2*i+1, own)
		cables = append(cables, store)
		own.Do(func() {
			n := startNode(t, rules, "--store=redis://"+net.JoinHostPort(store.Here, port), "--store-timeout=1s", "--http="+callers.There+":0")
			nodes = append(nodes, n)
		})
	}
	for _, n := range nodes { // a service closes a connection without a request for five seconds
		n.reachFrom(t, hub)
	}
	return nodes, cables, func() { hub.Do(func() { server.Do("FLUSHALL") }) }
}

// reachFrom makes the callers of a node send from within a network. It opens their connections now,
// because one thread opens all connections of a network, which takes long under load.
func (n *node) reachFrom(t *testing.T, from *testkit.Net) {
	address := strings.TrimPrefix(n.http, "http://")
	conns := make(chan net.Conn, nodeCallers)
	from.Do(func() {
		for range nodeCallers {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			conns <- conn
		}
	})
	transport := n.client.Transport.(*http.Transport)
	transport.MaxConnsPerHost = nodeCallers
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case conn := <-conns:
			return conn, nil
		default:
			return from.Dial(ctx, network, addr)
		}
	}
}

func each(cables []*testkit.Link, do func(*testkit.Link)) {
	for _, l := range cables {
		do(l)
	}
}
