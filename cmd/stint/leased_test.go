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

// lentRules are leased: 500 a second may pass, 500 at once, and 1,000 in all.
const lentRules = `
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

// What nodes do without the store: nothing, or what each has to itself.
const (
	lentDeny  = "on_store_failure: deny"
	lentLocal = "on_store_failure: local\nlocal_share: 10%\nnodes: 8"
)

// Eight processes that decide from what one Redis lent them let pass together what the
// limit says: never more, and all of it once what lay idle has come home.
func TestNodesLeased(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, fmt.Sprintf(lentRules, lentDeny), testkit.StartRedis(t).URL(), unhurried)
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

// over returns by how much the worst window is above burst + rate * time, and which that is.
// A request counts in a window if it was sent and answered inside it.
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

// fault is something that happens to a fleet.
type fault struct {
	name string
	do   func()
}

// In no window does more pass than the limit says, as clients record it: while a node
// stands still and goes on, while one is killed, and while Redis stands still, loses
// everything it knew, or starts again; on one server and on a Cluster, of which a primary is
// killed; where nodes deny without the store, and where each has a share of its own.
func TestNodesLeasedThroughFaults(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	calm := 1500 * time.Millisecond
	if testing.Short() {
		calm = 300 * time.Millisecond
	}
	for name, policy := range map[string]string{"deny": lentDeny, "local": lentLocal} {
		rules := fmt.Sprintf(lentRules, policy)
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
					primary = holds(t, cluster, ":"+everybody)
					primary.Freeze()
					pass(calm / 3) // not so long that a replica takes over
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

// holds returns the primary that has a key, which may be gone while nobody asks for it.
func holds(t *testing.T, cluster *testkit.RedisCluster, key string) (has *testkit.RedisServer) {
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

// everybody is who all callers ask for; in every eighth request together with others, whose
// keys lie elsewhere in a Cluster.
const everybody = "all"

// record is what callers of a fleet were told.
type record struct {
	t       *testing.T
	nodes   []*node
	began   time.Time
	stop    chan struct{}
	callers sync.WaitGroup

	mu     sync.Mutex // guards what follows
	asked  int
	passed map[string][]admission // by user
}

// drill lets callers ask all nodes, without a pause, until the record is looked at.
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

// ask is a caller's request number i; false where it was the last.
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

// nodeFaults are nothing at all, and what may happen to nodes.
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

// through lets faults happen, one after the other with a calm behind each, and then holds
// what callers were told against the limit.
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
		if more > 0.5 { // a microsecond is a part of a unit
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
