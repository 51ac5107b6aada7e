package main

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

// gossipRules are rules that each node decides by itself; it sends its counts to the others.
const gossipRules = `
domain: api
coordination: gossip
nodes: 3
on_store_failure: deny
descriptors:
  - key: bucket
    rate_limit: {requests: 1000, per: 366d, algorithm: token_bucket}
  - key: window
    rate_limit: {requests: 1000, per: 366d}
  - key: asked
    rate_limit: {requests: 100, per: 366d, gossip: ask}
`

// keyFile writes a new gossip key.
func keyFile(t testing.TB) string {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// known waits until all nodes count want used units of a key.
func known(t testing.TB, nodes []*node, key string, want int) {
	t.Helper()
	for i, n := range nodes {
		got := -1
		for deadline := time.Now().Add(slack * 10 * time.Second); time.Now().Before(deadline); pass(20 * time.Millisecond) {
			if got = n.used(t, key, "all"); got == want {
				break
			}
		}
		if got != want {
			t.Errorf("%s: node %d believes that %d are used, %d are", key, i, got, want)
		}
	}
}

// Three processes without a store gossip. One is killed, and its replacement gets its counts from
// the others. A process with another key is refused. A process that stops first sends its last
// counts.
func TestNodesGossip(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	key, at := keyFile(t), []string{testkit.Address(t), testkit.Address(t), testkit.Address(t), testkit.Address(t)}
	start := func(i int, flags ...string) *node {
		return startNode(t, gossipRules, append([]string{
			"--store=memory", "--store-timeout=1s", "--gossip=" + at[i], "--gossip-join=" + strings.Join(at[:3], ","),
		}, flags...)...)
	}
	secret := "--gossip-key-file=" + key
	nodes := []*node{start(0, secret), start(1, secret), start(2, secret)}
	for _, n := range nodes {
		peers(t, n, 2)
	}
	passed := together(t, nodes, "bucket", 200)
	if passed != 600 {
		t.Errorf("%d of 600 passed, of a limit of 1000", passed)
	}
	known(t, nodes, "bucket", 600)
	over := together(t, nodes, "window", 1500)
	if over < 1000 || over > 3000 {
		t.Errorf("%d passed of a limit of 1000 on three nodes", over)
	}
	t.Logf("%d passed of a limit of 1000 on three nodes, at full speed", over)

	asked := together(t, nodes, "asked", 120)
	if asked < 100 || asked > 300 {
		t.Errorf("%d passed of a limit of 100 on three nodes that ask each other", asked)
	}
	t.Logf("%d passed of a limit of 100 on three nodes that ask each other, all at once", asked)

	nodes[1].kill(t)
	nodes[1] = start(1, secret)
	for _, n := range nodes {
		peers(t, n, 2)
	}
	known(t, nodes, "bucket", 600)
	known(t, nodes, "window", 1000) // the excess is a debt

	if log := nodes[1].log(); strings.Contains(log, "no other node has sent") {
		t.Errorf("the new node began without what the others know:\n%s", log)
	}
	stranger := start(3)
	peers(t, stranger, 0)
	if a, err := stranger.ask(t.Context(), "bucket", "all"); err != nil || !a.Allowed {
		t.Errorf("%+v %v", a, err)
	}
	until(t, nodes[0], "stint_gossip_refused_total", func(got float64) bool { return got > 0 })
	known(t, nodes, "bucket", 600)

	if got := together(t, nodes, "asked", 12); got != 0 {
		t.Errorf("%d more passed of those that ask", got)
	}
	if got := together(t, nodes[:1], "bucket", 100); got != 100 {
		t.Errorf("%d of 100 passed", got)
	}
	if err := nodes[0].process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-nodes[0].process.ended; err != nil {
		t.Error(err)
	}
	nodes[0].ended = true
	known(t, nodes[1:], "bucket", 700)
	for _, n := range nodes[1:] {
		peers(t, n, 1)
	}
}

// until waits until is returns true for a metric of a node.
func until(t testing.TB, n *node, name string, is func(float64) bool) {
	t.Helper()
	got := -1.0
	for deadline := time.Now().Add(slack * 15 * time.Second); time.Now().Before(deadline); pass(20 * time.Millisecond) {
		if got = n.metric(t, name); is(got) {
			return
		}
	}
	t.Errorf("%s is %v", name, got)
}

// peers waits until a node has want peers.
func peers(t testing.TB, n *node, want float64) {
	t.Helper()
	until(t, n, "stint_gossip_peers", func(got float64) bool { return got == want })
}
