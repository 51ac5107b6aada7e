//go:build unix

package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

// leasedRules are leased rules: 500 a second may pass, 500 at once, and 1,000 in all.
const leasedRules = `
domain: api
coordination: leased
%s
descriptors:
  - key: rate
    rate_limit: {requests: 500, per: 1s, algorithm: token_bucket, burst: 500}
  - key: bucket
    rate_limit: {requests: 1000, per: 366d, algorithm: token_bucket}
  - key: window
    rate_limit: {requests: 1000, per: 366d}
`

// Failure policies: a node without the store denies, or uses its local share.
const (
	lentDeny  = "on_store_failure: deny"
	lentLocal = "on_store_failure: local\nlocal_share: 10%\nnodes: 8"
)

// Eight processes with leases from one Redis let pass together exactly the limit: never more, and
// all of it once they have returned their unused units.
func TestNodesLeased(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, fmt.Sprintf(leasedRules, lentDeny), testkit.StartRedis(t).URL(), unhurried)
	for _, key := range []string{"bucket", "window"} {
		passed := askAll(t, nodes, key, 1)[0]
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
		t.Logf("%s: %d passed at first, %d in the end; the store has decided %.0f calls of all nodes so far, and got %.0f messages", key, first, passed, decided, messages)
		if passed != 1000 {
			t.Errorf("%s: %d passed, want 1000", key, passed)
		}
	}
}

// admission is a request that passed: when it was sent and answered, by the clock of its caller.
type admission struct{ sent, answered time.Duration }

// over returns by how much the worst window exceeds burst + rate * time, and that window. A request
// counts in a window if it was sent and answered inside it.
func over(list []admission, burst, rate float64) (worst float64, window admission) {
	slices.SortFunc(list, func(a, b admission) int { return cmp.Compare(a.answered, b.answered) })
	for _, first := range list {
		n := 0.0
		for _, a := range list {
			if a.sent >= first.sent {
				n++
				if more := n - burst - rate*(a.answered-first.sent).Seconds(); more > worst {
					worst, window = more, admission{first.sent, a.answered}
				}
			}
		}
	}
	return worst, window
}

// fault is an event that happens to the nodes or the store.
type fault struct {
	name string
	do   func()
}

// No window, as clients measure it, lets more pass than the limit: while a node is frozen and goes
// on, while one is killed, and while Redis is frozen, loses all data, or starts again. The test
// runs on one server and on a Cluster, of which it kills a primary; with nodes that deny without
// the store, and with nodes that have a local share.
func TestNodesLeasedThroughFaults(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	calm := 1500 * time.Millisecond
	if testing.Short() {
		calm = 300 * time.Millisecond
	}
	for name, policy := range map[string]string{"deny": lentDeny, "local": lentLocal} {
		rules := fmt.Sprintf(leasedRules, policy)
		t.Run("redis/"+name, func(t *testing.T) {
			t.Parallel()
			server := testkit.StartRedis(t)
			r := drill(t, startNodes(t, rules, server.URL(), "--store-timeout=1s"))
			r.through(append(r.nodeFaults(calm),
				fault{"Redis stands still", func() { server.Freeze(); pass(calm); server.Thaw() }},
				fault{"Redis is emptied", func() { server.Do("FLUSHALL") }},
				fault{"Redis starts again", server.Restart}), calm)
		})
		t.Run("cluster/"+name, func(t *testing.T) {
			t.Parallel()
			cluster := testkit.StartRedisCluster(t, 3)
			r := drill(t, startNodes(t, rules, cluster.URL(), "--store-timeout=1s"))
			var primary *testkit.RedisServer
			r.through(append(r.nodeFaults(calm),
				fault{"a primary stands still", func() {
					primary = primaryOf(t, cluster, ":"+everybody)
					primary.Freeze()
					pass(calm / 3) // too short for a replica to take over
					primary.Thaw()
				}},
				fault{"a primary is emptied", func() { primary.Do("FLUSHALL") }},
				fault{"a primary is killed", func() {
					primary.Stop()
					testkit.Until(t, "another one has taken over", func() bool { return len(cluster.Primaries()) == 3 })
				}}), calm)
		})
	}
}

// primaryOf returns the primary that has a key. The key may be missing while nobody asks for it.
func primaryOf(t *testing.T, cluster *testkit.RedisCluster, key string) (has *testkit.RedisServer) {
	testkit.Until(t, "a primary has "+key, func() bool {
		for _, primary := range cluster.Primaries() {
			if primary.Do("KEYS", "*"+key) != "" {
				has = primary
			}
		}
		return has != nil
	})
	return has
}

// everybody is the user of all requests. Every eighth request has further users, whose keys are on
// other servers of a Cluster.
const everybody = "all"

// record has the answers that callers of a fleet got.
type record struct {
	t       *testing.T
	nodes   []*node
	began   time.Time
	stop    chan struct{}
	callers sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	asked  int
	passed map[string][]admission // by user
}

// drill lets callers send requests to all nodes, without a pause, until the test reads the record.
func drill(t *testing.T, nodes []*node) *record {
	r := &record{t: t, nodes: nodes, began: time.Now(), stop: make(chan struct{}), passed: map[string][]admission{}}
	callers := nodeCallers
	if testing.Short() {
		callers = 4
	}
	for _, n := range nodes {
		for range callers {
			r.callers.Go(func() {
				for i := 0; r.ask(n, i); i++ {
				}
			})
		}
	}
	return r
}

// ask sends request number i of a caller, and returns false after the last one.
func (r *record) ask(n *node, i int) bool {
	select {
	case <-r.stop:
		return false
	default:
	}
	users := []string{everybody}
	if i%8 == 0 {
		users = append(users, fmt.Sprint("user", i/8%20))
	}
	sent := time.Since(r.began)
	a, err := n.ask(r.t.Context(), "rate", users...)
	if err != nil {
		return false // it was killed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked++; a.Allowed {
		for _, user := range users {
			r.passed[user] = append(r.passed[user], admission{sent, time.Since(r.began)})
		}
	}
	return true
}

// nodeFaults returns no fault at all, and those of nodes.
func (r *record) nodeFaults(calm time.Duration) []fault {
	signal := func(n *node, s syscall.Signal) {
		if err := n.process.cmd.Process.Signal(s); err != nil {
			r.t.Error(err)
		}
	}
	return []fault{
		{"nothing", func() {}},
		{"a node stands still", func() { signal(r.nodes[0], syscall.SIGSTOP); pass(calm); signal(r.nodes[0], syscall.SIGCONT) }},
		{"a node is killed", func() {
			signal(r.nodes[1], syscall.SIGKILL)
			<-r.nodes[1].process.ended //nolint:errcheck // it was killed
			r.nodes[1].ended = true
		}},
	}
}

// through runs faults one after the other, with a pause after each, and then compares the answers
// with the limit.
func (r *record) through(faults []fault, calm time.Duration) {
	r.t.Helper()
	for _, f := range faults {
		before, from := r.soFar(), time.Now()
		f.do()
		pass(calm)
		r.t.Logf("%-22s at %v: %4d passed in %v", f.name, from.Sub(r.began).Round(10*time.Millisecond), r.soFar()-before, time.Since(from).Round(10*time.Millisecond))
	}
	close(r.stop)
	r.callers.Wait()
	took := time.Since(r.began)
	worst, all := 0.0, len(r.passed[everybody])
	for user, list := range r.passed {
		more, window := over(list, 500, 500)
		if more > 0.5 { // times are rounded to microseconds, which are a fraction of a unit
			r.t.Errorf("%.1f too many passed of %s from %v to %v", more, user, window.sent, window.answered)
		}
		worst = max(worst, more)
	}
	r.t.Logf("%d of %d passed in %v, where one bucket would have let pass %.0f; the worst window has %.1f too many",
		all, r.asked, took.Round(time.Millisecond), min(float64(r.asked), 500+500*took.Seconds()), max(0, worst))
	if all < 500 {
		r.t.Error(fmt.Sprint("only ", all, " passed"))
	}
}

// soFar returns how many requests have passed.
func (r *record) soFar() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.passed[everybody])
}
