package testkit

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slots is the number of hash slots of a Cluster.
const slots = 16384

// patience is how long servers may take to find each other.
const patience = time.Minute

// Steady is a timeout for failover, see the methods Timeout, for tests in which no server fails. No
// machine that runs tests is suspended for so long.
const Steady = time.Minute

// RedisCluster is a Redis Cluster whose nodes all run on this machine.
type RedisCluster struct {
	Nodes []*RedisServer // primaries first, then one replica of each
	t     testing.TB
}

// StartRedisCluster starts a Cluster with the given number of primaries, each with one replica, and
// waits until it serves. Tests in which no node fails should set its [RedisCluster.Timeout] to
// Steady.
func StartRedisCluster(t testing.TB, primaries int) *RedisCluster {
	t.Helper()
	c := &RedisCluster{t: t}
	for i := range 2 * primaries {
		c.Nodes = append(c.Nodes, StartRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", fmt.Sprint("nodes-", i, ".conf"),
			"--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"))
	}
	for i, node := range c.Nodes {
		if i < primaries {
			add := []string{"CLUSTER", "ADDSLOTS"} // the short form with ranges needs Redis 7
			for slot := i * slots / primaries; slot < (i+1)*slots/primaries; slot++ {
				add = append(add, strconv.Itoa(slot))
			}
			node.ok(add...)
		}
		node.ok("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		for _, other := range c.Nodes[:i] {
			host, port, _ := net.SplitHostPort(other.Addr)
			node.ok("CLUSTER", "MEET", host, port)
		}
	}
	c.all("all nodes know each other", func(node *RedisServer) bool {
		nodes := node.Do("CLUSTER", "NODES")
		return strings.Count(nodes, " connected") == len(c.Nodes) && !strings.Contains(nodes, "handshake")
	})
	c.swap(c.Nodes[:primaries], c.Nodes[primaries:])
	c.Settle()
	return c
}

// swap lets replicas take over from the old primaries, which have all slots, and lists them first.
// A primary refuses calls for two seconds after its start; a replica that takes over does not.
func (c *RedisCluster) swap(old, replicas []*RedisServer) {
	c.t.Helper()
	for i, node := range replicas {
		node.ok("CLUSTER", "REPLICATE", old[i].Do("CLUSTER", "MYID"))
	}
	for _, node := range replicas {
		Until(c.t, "the replica serves", func() bool { return strings.Contains(node.Do("CLUSTER", "INFO"), "cluster_state:ok") })
		node.ok("CLUSTER", "FAILOVER", "TAKEOVER")
	}
	for i, node := range replicas {
		id := node.Do("CLUSTER", "MYID")
		c.all("all nodes know the new primary and its replica", func(node *RedisServer) bool {
			return strings.Contains(node.Do("CLUSTER", "REPLICAS", id), old[i].Addr)
		})
	}
	c.Nodes = slices.Concat(replicas, old)
}

// Settle waits until every running node reports that the Cluster serves, and every replica follows
// its primary.
func (c *RedisCluster) Settle() {
	c.t.Helper()
	c.all("the Cluster serves", func(node *RedisServer) bool {
		info := node.Do("INFO", "replication")
		return strings.Contains(node.Do("CLUSTER", "INFO"), "cluster_state:ok") &&
			(strings.Contains(info, "role:master") || strings.Contains(info, "master_link_status:up"))
	})
}

// Timeout sets after how long without a sign of life a node counts as failed. Then its replica
// takes over, and the last writes are lost. It is a second at first, and busy machines may be
// suspended for longer than that.
func (c *RedisCluster) Timeout(d time.Duration) {
	c.t.Helper()
	for _, node := range c.Nodes {
		node.ok("CONFIG", "SET", "cluster-node-timeout", strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// Primaries returns the running nodes that are primaries now.
func (c *RedisCluster) Primaries() []*RedisServer {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(node *RedisServer) bool {
		return !node.Running() || !strings.Contains(node.Do("INFO", "replication"), "role:master")
	})
}

// Addrs returns the addresses of all nodes, separated by commas.
func (c *RedisCluster) Addrs() string {
	var all []string
	for _, node := range c.Nodes {
		all = append(all, node.Addr)
	}
	return strings.Join(all, ",")
}

// URL returns the addresses of all nodes as a URL for stores.
func (c *RedisCluster) URL() string { return "redis+cluster://" + c.Addrs() }

// all waits until holds returns true for every running node.
func (c *RedisCluster) all(what string, holds func(*RedisServer) bool) {
	c.t.Helper()
	for _, node := range c.Nodes {
		if node.Running() {
			Until(c.t, what, func() bool { return holds(node) })
		}
	}
}

// Until waits until holds returns true.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after %v still not so: %s", patience, what)
		}
	}
}

// ok sends a command and fails the test unless the answer is OK.
func (s *RedisServer) ok(words ...string) {
	s.t.Helper()
	if answer := s.Do(words...); answer != "OK" {
		s.t.Fatalf("%s: %s", strings.Join(words, " "), answer)
	}
}

// Running reports whether the server runs, even if it is frozen.
func (s *RedisServer) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil
}
