package main

import (
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint/internal/testkit"
)

// make long sets a higher value.
var nodeRounds = flag.Int("nodes.rounds", 3, "how often TestNodes starts everything anew; once in short mode")

// quota has a limit of 1,000 for every algorithm that denies; the name of the descriptor is the
// algorithm. Windows of 366 days are counted from 1970, so they end in February of 2027 and of
// 2028.
const quota = `
domain: api
descriptors:
  - key: token_bucket
    rate_limit: {requests: 1000, per: 366d, algorithm: token_bucket, on_store_failure: deny}
  - key: fixed_window
    rate_limit: {requests: 1000, per: 366d, on_store_failure: deny}
  - key: sliding_log
    rate_limit: {requests: 1000, per: 366d, algorithm: sliding_log, on_store_failure: deny}
  - key: sliding_window
    rate_limit: {requests: 1000, per: 366d, algorithm: sliding_window, on_store_failure: deny}
`

const (
	nodeCount   = 8
	nodeCallers = 64
	nodeTries   = 6 // requests of each caller for each user: together three times the limit, half of it in short mode
)

// startNodes starts eight nodes on a store.
func startNodes(t testing.TB, rules, url string, flags ...string) []*node {
	t.Helper()
	nodes := make([]*node, nodeCount)
	for i := range nodes {
		nodes[i] = startNode(t, rules, append([]string{"--store=" + url}, flags...)...)
	}
	return nodes
}

// askAll lets all callers of all nodes send nodeTries requests for each user, and returns how many
// passed for each user.
func askAll(t testing.TB, nodes []*node, key string, users int) []int64 {
	t.Helper()
	tries := nodeTries
	if testing.Short() {
		tries /= 2
	}
	passed := make([]int64, users)
	var callers sync.WaitGroup
	for _, n := range nodes {
		for range nodeCallers {
			callers.Go(func() {
				for i := range tries * users {
					a, err := n.ask(t.Context(), key, fmt.Sprint("user", i%users))
					switch {
					case err != nil:
						t.Error(err)
						return
					case a.status != 200 || a.Degraded:
						t.Errorf("not decided by the store: %+v", a)
						return
					case a.Allowed:
						atomic.AddInt64(&passed[i%users], 1)
					}
				}
			})
		}
	}
	callers.Wait()
	return passed
}

// Eight processes with 64 callers each let pass together exactly the limit, on one Redis, and on a
// Cluster, where each user is on another server.
func TestNodes(t *testing.T) {
	rounds := *nodeRounds
	if testing.Short() {
		rounds = 1
	}
	algorithms := []string{"token_bucket", "fixed_window", "sliding_log", "sliding_window"}
	t.Parallel()
	for round := range rounds {
		key := algorithms[round%len(algorithms)]
		t.Run(fmt.Sprintf("redis/%d", round), func(t *testing.T) {
			t.Parallel()
			exactly(t, testkit.StartRedis(t).URL(), key, 1)
		})
		t.Run(fmt.Sprintf("cluster/%d", round), func(t *testing.T) {
			t.Parallel()
			cluster := testkit.StartRedisCluster(t, 3)
			cluster.Timeout(testkit.Steady) // counts are exact only if no replica takes over
			exactly(t, cluster.URL(), key, 3)
			if round == 0 {
				primaryKilled(t, cluster)
			}
		})
	}
}

// exactly starts nodes on a store and checks that 1,000 requests pass for each user.
func exactly(t *testing.T, url, key string, users int) {
	nodes := startNodes(t, quota, url, unhurried)
	began := time.Now()
	passed := askAll(t, nodes, key, users)
	for user, n := range passed {
		if n != 1000 {
			t.Errorf("%s: %d passed of user %d, want 1000", key, n, user)
		}
	}
	t.Logf("%s: of %d callers at %d nodes %v passed, in %v", key, nodeCount*nodeCallers, nodeCount, passed, time.Since(began).Round(time.Millisecond))
}

// primaryKilled kills a primary of the Cluster under load. Every request gets an answer, and after
// at most five seconds the Cluster decides again.
func primaryKilled(t *testing.T, cluster *testkit.RedisCluster) {
	cluster.Timeout(time.Second)
	var nodes []*node
	for range 2 {
		nodes = append(nodes, startNode(t, quota, "--store="+cluster.URL(), "--store-timeout=1s"))
	}
	l := drive(t, nodes, 8, 5*time.Millisecond, "token_bucket", "fixed_window")
	pass(300 * time.Millisecond)
	killed := time.Since(l.began)
	cluster.Nodes[0].Stop()
	pass(100 * time.Millisecond)
	back := l.settle(killed)
	answers, degraded := l.end(), 0
	noError(t, answers)
	for _, a := range answers {
		if a.Degraded {
			degraded++
		}
	}
	t.Logf("%d of %d requests without the Cluster; all decided by it again %v after a primary was killed", degraded, len(answers), back.Round(time.Millisecond))
	if degraded == 0 || back > slack*5*time.Second {
		t.Errorf("%d requests without the Cluster, the last after %v", degraded, back)
	}
}
