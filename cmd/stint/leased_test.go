package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"stint/internal/redistest"
)

// lentRules are leased: 500 a second may pass, 500 at once, and 1,000 in all.
const lentRules = `
domain: api
coordination: leased
on_store_failure: deny
descriptors:
  - key: rate
    rate_limit: {requests: 500, per: 1s, algorithm: token_bucket, burst: 500}
  - key: bucket
    rate_limit: {requests: 1000, per: 366d, algorithm: token_bucket}
  - key: window
    rate_limit: {requests: 1000, per: 366d}
`

// Eight processes that decide from what one Redis lent them let pass together what the
// limit says: never more, and all of it once what lay idle has come home.
func TestNodesLeased(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, lentRules, redistest.Start(t).URL(), "--store-timeout=1s")
	for _, key := range []string{"bucket", "window"} {
		passed := crowd(t, nodes, key, 1)[0]
		first := passed
		for deadline := time.Now().Add(slack * 5 * time.Second); passed < 1000 && time.Now().Before(deadline); {
			for _, n := range nodes {
				if a, err := n.ask(t.Context(), key, "user0"); err != nil {
					t.Fatal(err)
				} else if a.Allowed {
					passed++
				}
			}
		}
		decided, messages := 0.0, 0.0
		for _, n := range nodes {
			decided += n.metric(t, "stint_lease_store_decisions_total")
			messages += n.metric(t, "stint_lease_messages_total")
		}
		t.Logf("%s: %d passed in the crowd, %d in the end; all nodes had the store decide %.0f calls so far, and told it %.0f times", key, first, passed, decided, messages)
		if passed != 1000 {
			t.Errorf("%s: %d passed, want 1000", key, passed)
		}
	}
}

// admission is a request that passed, by the clock of whoever sent it.
type admission struct{ sent, answered time.Duration }

// over returns by how much the worst window is above burst + rate * time. A request counts
// in a window if it was sent and answered inside it.
func over(list []admission, burst, rate float64) (worst float64) {
	slices.SortFunc(list, func(a, b admission) int { return cmp.Compare(a.answered, b.answered) })
	for _, first := range list {
		n := 0.0
		for _, a := range list {
			if a.sent >= first.sent {
				n++
				worst = max(worst, n-burst-rate*(a.answered-first.sent).Seconds())
			}
		}
	}
	return worst
}

// In no window does more pass than the limit says, as clients record it: while a node
// stands still and goes on, while one is killed, and while Redis stands still, or loses
// everything it knew.
func TestNodesLeasedThroughFaults(t *testing.T) {
	server := redistest.Start(t)
	nodes := startNodes(t, lentRules, server.URL(), "--store-timeout=1s")
	callers, calm := 16, 1500*time.Millisecond
	if testing.Short() {
		callers, calm = 4, 300*time.Millisecond
	}
	began, stop := time.Now(), make(chan struct{})
	var mu sync.Mutex
	var passed []admission
	asked := 0
	var all sync.WaitGroup
	for _, n := range nodes {
		for range callers {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					sent := time.Since(began)
					a, err := n.ask(t.Context(), "rate", "all")
					if err != nil {
						return // it was killed
					}
					mu.Lock()
					if asked++; a.Allowed {
						passed = append(passed, admission{sent, time.Since(began)})
					}
					mu.Unlock()
				}
			})
		}
	}
	signal := func(n *node, s syscall.Signal) {
		if err := n.process.cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	for _, fault := range []struct {
		name string
		do   func()
	}{
		{"nothing", func() {}},
		{"a node stands still", func() { signal(nodes[0], syscall.SIGSTOP); pass(calm); signal(nodes[0], syscall.SIGCONT) }},
		{"a node is killed", func() { signal(nodes[1], syscall.SIGKILL); <-nodes[1].process.ended; nodes[1].ended = true }}, //nolint:errcheck // it was killed
		{"Redis stands still", func() { server.Freeze(); pass(calm); server.Thaw() }},
		{"Redis is emptied", func() { server.Do("FLUSHALL") }},
	} {
		before, from := soFar(&mu, &passed), time.Now()
		fault.do()
		pass(calm)
		t.Logf("%-20s %4d passed in %v", fault.name, soFar(&mu, &passed)-before, time.Since(from).Round(10*time.Millisecond))
	}
	close(stop)
	all.Wait()
	took := time.Since(began)
	worst := over(passed, 500, 500)
	t.Logf("%d of %d passed in %v, where one bucket would have let pass %.0f; the worst window has %.1f too many",
		len(passed), asked, took.Round(time.Millisecond), min(float64(asked), 500+500*took.Seconds()), max(0, worst))
	if worst > 0.5 { // a microsecond is a part of a unit
		t.Errorf("%v too many passed in one window", worst)
	}
	if len(passed) < 500 {
		t.Error(fmt.Sprint("only ", len(passed), " passed"))
	}
}

func soFar(mu *sync.Mutex, list *[]admission) int {
	mu.Lock()
	defer mu.Unlock()
	return len(*list)
}
