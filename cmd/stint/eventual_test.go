package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

// ownRules are rules that each node decides by itself. A peek at the strict rules returns the count
// of the store.
const ownRules = `
domain: api
coordination: eventual
nodes: 2
on_store_failure: deny
descriptors:
  - key: bucket
    rate_limit: {requests: 1000, per: 366d, algorithm: token_bucket}
  - key: window
    rate_limit: {requests: 1000, per: 366d, cache: 100}
  - key: large
    rate_limit: {requests: 1000000, per: 366d, algorithm: token_bucket}
`

var askingRules = strings.Replace(ownRules, "coordination: eventual\nnodes: 2\n", "", 1)

// strict returns the same rules without a cache, so every take asks the store.
func strict() string { return strings.Replace(askingRules, ", cache: 100", "", 1) }

// used returns the used units of a limit, by a peek.
func (n *node) used(t testing.TB, key, user string) int {
	t.Helper()
	body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":%q}],"cost":0}]}`, key, user)
	resp, err := n.client.Post(n.http+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a struct{ Limit, Remaining int }
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, status %d", err, resp.StatusCode)
	}
	return a.Limit - a.Remaining
}

// counted waits until the store has counted want units. It may have counted up to unknown more, for
// takes of unknown outcome.
func counted(t testing.TB, n *node, key string, want, unknown int) {
	t.Helper()
	got := -1
	for deadline := time.Now().Add(slack * 5 * time.Second); time.Now().Before(deadline); pass(20 * time.Millisecond) {
		if got = n.used(t, key, "all"); want <= got && got <= want+unknown {
			return
		}
	}
	t.Errorf("%s: the store has counted %d, want %d, or up to %d more", key, got, want, unknown)
}

// Two processes with eventual limits let pass at most what both may have before they exchange
// counts. The store counts all of it.
func TestNodesEventual(t *testing.T) {
	t.Parallel()
	witness, nodes, _ := startEventual(t)
	for _, key := range []string{"bucket", "window"} {
		passed := together(t, nodes, key, 1500)
		if passed < 1000 || passed > 2000 {
			t.Errorf("%s: %d passed, want 1000 to 2000", key, passed)
		}
		t.Logf("%s: %d passed of 1000", key, passed)
		counted(t, witness, key, 1000, 0)
		for _, n := range nodes {
			if a, err := n.ask(t.Context(), key, "all"); err != nil || a.Allowed {
				t.Errorf("%s: %+v %v, when all is used up", key, a, err)
			}
		}
	}
}

// startEventual starts a store, a process whose peeks return the count of the store, and two with
// eventual limits.
func startEventual(t *testing.T) (witness *node, nodes []*node, server *testkit.RedisServer) {
	server = testkit.StartRedis(t)
	witness = startNode(t, strict(), "--store="+server.URL(), unhurried)
	for range 2 {
		nodes = append(nodes, startNode(t, ownRules, "--store="+server.URL(), "--store-timeout=1s"))
	}
	return witness, nodes, server
}

// The store counts also what passed while it was frozen or a process stopped. A take that a process
// denied meanwhile may already be on its way to the store; then the store charges it when it runs
// again.
func TestNodesEventualFrozen(t *testing.T) {
	t.Parallel()
	witness, nodes, server := startEventual(t)
	passed := together(t, nodes, "large", 300)
	server.Freeze()
	denied := 0
	for deadline := time.Now().Add(slack * 10 * time.Second); denied < 3 && time.Now().Before(deadline); pass(10 * time.Millisecond) {
		a, err := nodes[0].ask(t.Context(), "large", "all")
		switch {
		case err != nil:
			t.Fatal(err)
		case a.Allowed && a.Degraded:
			t.Errorf("%+v, where the policy is to deny", a)
		case a.Allowed:
			passed++
		default:
			denied++
		}
	}
	if denied < 3 {
		t.Error("the store was away and nothing was denied")
	}
	server.Thaw()
	testkit.Until(t, "the store is used again", func() bool { return nodes[0].metric(t, "stint_store_available") == 1 })
	if a, err := nodes[0].ask(t.Context(), "large", "all"); err != nil || !a.Allowed || a.Degraded {
		t.Errorf("%+v %v, when the store is back", a, err)
	}
	passed++
	counted(t, witness, "large", passed, denied)
	passed += together(t, nodes, "large", 200)
	for _, n := range nodes {
		if err := n.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range nodes {
		if err := <-n.process.ended; err != nil {
			t.Error(err)
		}
		n.ended = true
	}
	if got := witness.used(t, "large", "all"); got < passed || got > passed+denied {
		t.Errorf("the store has counted %d, and %d passed, and %d may have", got, passed, denied)
	}
}

// A killed node loses only what passed after its last exchange with the store, and it exchanges
// counts on its own.
func TestNodeEventualKilled(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	witness := startNode(t, strict(), "--store="+server.URL(), unhurried)
	n := startNode(t, ownRules, "--store="+server.URL(), unhurried, "--sync-interval=200ms")
	sent := 0
	ask := func() {
		if a, err := n.ask(t.Context(), "large", "all"); err != nil || !a.Allowed {
			t.Fatalf("%+v, %v", a, err)
		}
		sent++
	}
	for range 3 {
		for until := time.Now().Add(500 * time.Millisecond); time.Now().Before(until); {
			ask()
		}
		began := time.Now()
		counted(t, witness, "large", sent, 0)
		t.Logf("all of %d are counted %v after the last", sent, time.Since(began))
	}
	const late = 50
	for range late {
		ask()
	}
	n.kill(t)
	lost := sent - witness.used(t, "large", "all")
	t.Logf("%d of %d were lost", lost, sent)
	if lost < 0 || lost > late {
		t.Errorf("%d of %d are lost, more than the %d that passed in the end", lost, sent, late)
	}
}

// together sends tries requests in all to the nodes, from four callers each, and returns how many
// passed.
func together(t testing.TB, nodes []*node, key string, tries int) int {
	t.Helper()
	var passed atomic.Int64
	var callers sync.WaitGroup
	for _, n := range nodes {
		for range 4 {
			callers.Go(func() {
				for range tries / 4 {
					a, err := n.ask(t.Context(), key, "all")
					if err != nil {
						t.Error(err)
						return
					}
					if a.Allowed {
						passed.Add(1)
					}
				}
			})
		}
	}
	callers.Wait()
	return int(passed.Load())
}
