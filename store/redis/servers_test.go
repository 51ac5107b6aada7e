package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/redis"
)

// TestLook: on a Cluster Look checks and names the primaries, each key lies on one of them, and a
// lost replica is no error. A frozen primary is named, also by the error of a call that uses it and
// others.
func TestLook(t *testing.T) {
	t.Parallel() // most of the time servers only find each other
	cluster := testkit.StartRedisCluster(t, 3)
	cluster.Timeout(testkit.Steady)
	s := openCluster(t, cluster)
	names := func(servers []redis.Server) (all []string) {
		for _, one := range servers {
			if one.Err == nil {
				all = append(all, one.Name)
			}
		}
		slices.Sort(all)
		return all
	}
	var want []string
	for _, node := range cluster.Nodes[:3] {
		want = append(want, node.Addr)
	}
	slices.Sort(want)
	cluster.Nodes[4].Stop()
	cluster.Nodes[5].Stop()
	for range 20 { // any of them could go to a replica
		if got := names(s.Look(t.Context(), false)); !slices.Equal(got, want) {
			t.Fatalf("there are %q, want %q", got, want)
		}
		if err := errors.Join(s.Ping(t.Context()), s.Probe(t.Context())); err != nil {
			t.Fatal(err)
		}
	}

	frozen := cluster.Nodes[1]
	lies := map[bool]stint.Key{}
	for i := range 100 {
		take := stint.Take{Key: stint.Key(fmt.Sprint("key", i)), Limit: forms[0], Cost: 1}
		lies[s.ServerName(s.Server(&take)) == frozen.Addr] = take.Key
		if err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{take}}); err != nil {
			t.Fatal(err)
		}
		if there := frozen.Do("KEYS", "*:"+string(take.Key)) != ""; there != (s.ServerName(s.Server(&take)) == frozen.Addr) {
			t.Fatalf("%s is said to lie on %s, and that it lies on %s is %v", take.Key, s.ServerName(s.Server(&take)), frozen.Addr, there)
		}
	}
	if n := s.Server(&stint.Take{Limit: stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})}); n >= 0 {
		t.Errorf("a take without a limit lies on server %d", n)
	}
	frozen.Freeze()
	t.Cleanup(frozen.Thaw)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var calls sync.WaitGroup // each lasts until ctx is done
	calls.Go(func() {
		servers := s.Look(ctx, false)
		if got := names(servers); len(got) != 2 || slices.Contains(got, frozen.Addr) || len(servers) != 3 {
			t.Errorf("%+v", servers)
		}
	})
	calls.Go(func() {
		if err := s.Ping(ctx); err == nil || !strings.Contains(err.Error(), frozen.Addr) {
			t.Errorf("%v does not name %s", err, frozen.Addr)
		}
	})
	both := stint.Call{Takes: []stint.Take{{Key: lies[true], Limit: forms[0], Cost: 1}, {Key: lies[false], Limit: forms[0], Cost: 1}}}
	said := transaction.FailedServers(s.Decide(ctx, &both))
	if said == nil || len(said.Servers) != 1 || s.ServerName(said.Servers[0]) != frozen.Addr || !said.RestUncharged {
		t.Errorf("%+v", said)
	}
	calls.Wait()
}

// TestLost: each store learns once that a server was emptied, and the server begins an epoch that
// is marked so; also on a Cluster of which one server was emptied, and if nothing was ever lent.
func TestLost(t *testing.T) {
	t.Parallel() // most of the time servers only find each other
	check := func(t *testing.T, a, b *redis.Store, servers int, empty *testkit.RedisServer) {
		lost := func(s *redis.Store) (names []string) {
			found := s.Look(t.Context(), false)
			for _, one := range found {
				if one.Err != nil {
					t.Fatal(one.Err)
				}
				if one.Lost {
					names = append(names, one.Name)
				}
			}
			if len(found) != servers {
				t.Fatalf("%+v", found)
			}
			return names
		}
		for _, s := range []*redis.Store{a, b, a, b} {
			if names := lost(s); names != nil {
				t.Fatalf("%q have lost something at first", names)
			}
		}
		for range 2 {
			empty.Do("FLUSHALL")
			for _, s := range []*redis.Store{a, b} {
				if names := lost(s); len(names) != 1 {
					t.Errorf("after a flush %q have lost something", names)
				}
				if names := lost(s); names != nil {
					t.Errorf("%q have lost something once more", names)
				}
			}
		}
	}
	t.Run("one server", func(t *testing.T) {
		server := testkit.StartRedis(t)
		check(t, openIn(t, server, "lost"), openIn(t, server, "lost"), 1, server)
		if epoch := server.Do("GET", "lost:epoch"); !strings.Contains(epoch, " 1 ") {
			t.Errorf("the epoch is %s", epoch)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := testkit.StartRedisCluster(t, 3)
		cluster.Timeout(testkit.Steady)
		var stores [2]*redis.Store
		for i := range stores {
			s, err := redis.Open(cluster.URL(), redis.Options{Namespace: "lost"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			stores[i] = s
		}
		check(t, stores[0], stores[1], 3, cluster.Nodes[2])
	})
}

// A frozen primary accepts connections without answering. Only the probe of the partition that lost
// its connection first waits for it, no call of this or of other partitions.
func TestFrozenPrimaryHoldsNobody(t *testing.T) {
	t.Parallel() // most of the time servers only find each other
	cluster := testkit.StartRedisCluster(t, 3)
	cluster.Timeout(testkit.Steady)
	s, err := redis.Open(cluster.URL(), redis.Options{Namespace: "frozen"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.ConnectSlowlyForTest()
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	var keys []stint.Key
	for i := 0; len(keys) < 8; i++ {
		key := stint.Key(fmt.Sprint("key", i))
		if n := s.Server(&stint.Take{Key: key, Limit: forms[0]}); n != s.Server(&stint.Take{Key: "key0", Limit: forms[0]}) {
			continue
		}
		keys = append(keys, key)
		take(t, s, key, forms[0], 1)
	}
	name := s.ServerName(s.Server(&stint.Take{Key: "key0", Limit: forms[0]}))
	at := slices.IndexFunc(cluster.Nodes, func(node *testkit.RedisServer) bool { return node.Addr == name })
	if at < 0 {
		t.Fatalf("no node is %q", name)
	}
	time.Sleep(100 * time.Millisecond) // nobody calls for a while
	cluster.Nodes[at].Do("CLIENT", "KILL", "TYPE", "normal")
	cluster.Nodes[at].Freeze()
	defer cluster.Nodes[at].Thaw()
	for i, key := range keys {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		began := time.Now()
		_, err := attempt(ctx, s, key)
		cancel()
		if took := time.Since(began); err == nil || took > 10*time.Second {
			t.Fatalf("call %d: %v after %v, want an error after 30 ms", i, err, took)
		}
	}
}
