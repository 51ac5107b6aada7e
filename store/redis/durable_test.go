package redis_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/redis"
)

var monthly = stint.MustLimit(stint.Spec{Requests: 100, Calendar: stint.Month})

// durable returns a take of a durable rule.
func durable(rule string, key stint.Key, limit *stint.Limit, cost uint32) stint.Take {
	return stint.Take{Key: key, Limit: limit, Cost: cost, Handling: &stint.Handling{Terms: &stint.Terms{Domain: "api", Rule: rule, Durable: true}}}
}

// decideDurable decides takes, and returns the indexes of those whose counts are lost.
func decideDurable(t *testing.T, s stint.Store, at stint.Instant, takes ...stint.Take) (results []stint.Decision, lost []int) {
	t.Helper()
	call := stint.Call{At: at, Takes: takes}
	err := s.Decide(t.Context(), &call)
	if err == nil {
		return call.Results, nil
	}
	corrupt, ok := errors.AsType[*stint.CorruptState](err)
	if !ok || !errors.Is(err, transaction.ErrLost) || errors.Is(err, stint.ErrUnknown) {
		t.Fatal(err)
	}
	return call.Results, corrupt.Takes
}

// mustCount takes one unit, which must pass and leave so much.
func mustCount(t *testing.T, s stint.Store, take stint.Take, left int64) {
	t.Helper()
	if d, lost := decideDurable(t, s, noon, take); lost != nil || !d[0].Allowed || d[0].Remaining != left {
		t.Fatalf("%+v, lost %v, want %d left", d, lost, left)
	}
}

// mustBeLost checks that takes follow their policies.
func mustBeLost(t *testing.T, s stint.Store, at stint.Instant, takes ...stint.Take) {
	t.Helper()
	for i := range takes {
		if _, lost := decideDurable(t, s, at, takes[i]); !slices.Equal(lost, []int{0}) {
			t.Errorf("%s: lost %v", takes[i].Key, lost)
		}
	}
}

// A server with an append-only file that is killed and comes back has all takes, and nothing changes.
func TestDurableWithoutLoss(t *testing.T) {
	server := testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir())
	s, other := openIn(t, server, "kept"), openIn(t, server, "kept")
	take := durable("a", "k", monthly, 1)
	mustCount(t, s, take, 99)
	for i := range 3 {
		left := int64(98 - 2*i)
		mustCount(t, other, take, left)
		server.Stop()
		server.Restart()
		until(t, s)
		until(t, other)
		mustCount(t, s, take, left-1)
	}
	for _, one := range []*redis.Store{s, other} {
		if losses, err := one.Losses(t.Context()); err != nil || len(losses) > 0 {
			t.Errorf("%+v, %v", losses, err)
		}
	}
}

// until waits until a store uses its server again.
func until(t *testing.T, s *redis.Store) {
	t.Helper()
	testkit.Until(t, "the server is back", func() bool { return s.Ping(t.Context()) == nil })
}

// losses are the ways in which a server loses takes that it has answered.
var losses = map[string]func(t *testing.T, server *testkit.RedisServer, early string){
	"flushed":          func(_ *testing.T, server *testkit.RedisServer, _ string) { server.Do("FLUSHALL") },
	"started anew":     func(t *testing.T, server *testkit.RedisServer, _ string) { restartWith(t, server, "") },
	"an earlier state": restartWith,
}

// restartWith restarts a server with the append-only file of another folder; "" for none.
func restartWith(t *testing.T, server *testkit.RedisServer, folder string) {
	t.Helper()
	dir := server.Do("CONFIG", "GET", "dir")[len("dir\n"):]
	server.Stop()
	for _, path := range appendOnly(t, dir) {
		testkit.Must(t, os.RemoveAll(path))
	}
	if folder != "" {
		testkit.Must(t, os.CopyFS(dir, os.DirFS(folder)))
	}
	server.Restart()
}

// copyAppendOnly copies the append-only file of a server from one folder to another.
func copyAppendOnly(t *testing.T, to, from string) {
	t.Helper()
	paths := appendOnly(t, from)
	if len(paths) == 0 {
		t.Fatalf("no append-only file in %s", from)
	}
	for _, path := range paths {
		out, err := exec.Command("cp", "-r", path, to).CombinedOutput()
		if err != nil {
			t.Fatalf("copying %s: %v: %s", path, err, out)
		}
	}
}

// appendOnly returns what a server keeps of its append-only file in a folder: since Redis 7 a folder, before a file.
func appendOnly(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "appendonly*"))
	testkit.Must(t, err)
	return found
}

// After a loss durable takes follow their policies on all nodes, others are decided as ever, and a take that is
// given back or forced is not refused. That ends for a rule that accepts the loss, for all, or with the period. A
// node that remembers takes from before the loss does not bring it back.
func TestDurableLoss(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			dir, early := t.TempDir(), t.TempDir()
			server := testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", dir)
			knows, late, fresh := openIn(t, server, "lost"), openIn(t, server, "lost"), openIn(t, server, "lost")
			a, b := durable("a", "k", monthly, 1), durable("api/b", "k2", monthly, 1)
			mustCount(t, knows, a, 99)
			if name == "an earlier state" {
				copyAppendOnly(t, early, dir)
			}
			mustCount(t, late, a, 98)
			mustCount(t, knows, a, 97)
			lose(t, server, early)
			until(t, fresh)
			until(t, late)
			if found, err := fresh.Losses(t.Context()); err != nil || len(found) > 0 {
				t.Fatalf("a node that remembers nothing found %+v, %v", found, err)
			}
			until(t, knows)
			found, err := knows.Losses(t.Context())
			if err != nil || len(found) != 1 {
				t.Fatalf("%+v, %v", found, err)
			}
			lostAt := found[0].At
			for _, s := range []*redis.Store{knows, late, fresh} {
				mustBeLost(t, s, lostAt, a, b)
			}
			plain := stint.Take{Key: "plain", Limit: monthly, Cost: 1, Independent: true}
			apart := b
			apart.Independent = true
			if d, lost := decideDurable(t, fresh, lostAt, plain, apart); !slices.Equal(lost, []int{1}) || !d[0].Allowed {
				t.Errorf("%+v, lost %v", d, lost)
			}
			force := a
			force.Op = stint.Force
			if _, lost := decideDurable(t, fresh, lostAt, force); lost != nil {
				t.Errorf("a forced take: lost %v", lost)
			}
			ends := transaction.LossEnds(monthly, lostAt)
			mustBeLost(t, fresh, ends-1, a)
			if d, lost := decideDurable(t, fresh, ends, a); lost != nil || d[0].Remaining != 99 {
				t.Errorf("when the period has ended: %+v, lost %v", d, lost)
			}
			if some, err := fresh.AcceptLoss(t.Context(), "api/b"); err != nil || !some {
				t.Fatal(some, err)
			}
			for _, s := range []*redis.Store{late, knows} {
				mustBeLost(t, s, lostAt, a)
				if d, lost := decideDurable(t, s, lostAt, b); lost != nil || !d[0].Allowed {
					t.Errorf("a rule that accepted the loss: %+v, lost %v", d, lost)
				}
			}
			if some, err := late.AcceptLoss(t.Context(), ""); err != nil || !some {
				t.Fatal(some, err)
			}
			for _, s := range []*redis.Store{late, knows, fresh} {
				if _, lost := decideDurable(t, s, lostAt, a, b); lost != nil {
					t.Errorf("after all accepted it: lost %v", lost)
				}
			}
			if found, err := knows.Losses(t.Context()); err != nil || len(found) != 1 || found[0].At != lostAt || found[0].All != lostAt || found[0].Rules["api/b"] != lostAt {
				t.Errorf("%+v, %v, want the same loss", found, err)
			}
		})
	}
}

// A node that was told more of a server than its successor has proves the loss, also when others have
// taken more there since.
func TestDurableLossBehindOthers(t *testing.T) {
	dir, early := t.TempDir(), t.TempDir()
	server := testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", dir)
	knows, other := openIn(t, server, "behind"), openIn(t, server, "behind")
	take := durable("a", "k", monthly, 1)
	mustCount(t, other, take, 99)
	copyAppendOnly(t, early, dir)
	mustCount(t, knows, take, 98)
	restartWith(t, server, early)
	until(t, other)
	for left := range 3 {
		mustCount(t, other, take, int64(98-left))
	}
	until(t, knows)
	if _, lost := decideDurable(t, knows, noon, take); lost == nil {
		t.Error("the node did not notice that its take was lost")
	}
	mustBeLost(t, other, noon, take)
}

// A replica that is promoted has lost the takes that it did not have. One that has all has lost none.
func TestDurableFailover(t *testing.T) {
	for name, lags := range map[string]bool{"with all takes": false, "without the last one": true} {
		t.Run(name, func(t *testing.T) {
			sentinels := testkit.StartSentinels(t, 1)
			s, err := redis.Open(sentinels.URL(), redis.Options{Namespace: "failover"})
			testkit.Must(t, err)
			t.Cleanup(s.Close)
			take := durable("a", "k", monthly, 1)
			until(t, s)
			mustCount(t, s, take, 99)
			primary, replica := sentinels.Primary(), sentinels.Servers[1]
			if !lags {
				mustCount(t, s, take, 98)
			}
			testkit.Until(t, "the replica has all", func() bool {
				return replica.Do("HGETALL", "failover:durable") == primary.Do("HGETALL", "failover:durable")
			})
			if lags {
				replica.Do("REPLICAOF", "127.0.0.1", "1") // it gets no more writes
				mustCount(t, s, take, 98)
			}
			primary.Stop()
			testkit.Until(t, "the replica decides", func() bool { return s.Probe(t.Context()) == nil })
			if _, lost := decideDurable(t, s, noon, take); (lost != nil) != lags {
				t.Errorf("lost %v", lost)
			}
			if found, err := s.Losses(t.Context()); err != nil || len(found) > 0 != lags {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}

// A primary that copies a replica without the last takes, and then is the primary again, has lost these takes, also if
// no take reached that replica meanwhile. One that copies a replica with all takes has lost none.
func TestDurablePrimaryCopiesReplica(t *testing.T) {
	for name, lags := range map[string]bool{"with all takes": false, "without the last one": true} {
		t.Run(name, func(t *testing.T) {
			primary, replica := testkit.StartRedis(t, "--repl-diskless-sync-delay", "0"), testkit.StartRedis(t, "--repl-diskless-sync-delay", "0")
			follow := func(server, of *testkit.RedisServer) {
				t.Helper()
				host, port, _ := strings.Cut(of.Addr, ":")
				server.Do("REPLICAOF", host, port)
				testkit.Until(t, "the copy is complete", func() bool { return strings.Contains(server.Do("INFO", "replication"), "master_link_status:up") })
			}
			s := openIn(t, primary, "copies")
			take := durable("a", "k", monthly, 1)
			mustCount(t, s, take, 99)
			if !lags {
				mustCount(t, s, take, 98)
			}
			follow(replica, primary)
			replica.Do("REPLICAOF", "NO", "ONE")
			if lags {
				mustCount(t, s, take, 98)
			}
			follow(primary, replica)
			primary.Do("REPLICAOF", "NO", "ONE")
			if _, lost := decideDurable(t, s, noon, take); (lost != nil) != lags {
				t.Errorf("lost %v", lost)
			}
		})
	}
}

// A loss is noticed in the partition of each key.
func TestDurableLossInCluster(t *testing.T) {
	cluster := testkit.StartRedisCluster(t, 3)
	s := openCluster(t, cluster)
	var takes []stint.Take
	for _, key := range []stint.Key{"a", "b", "c", "d"} {
		takes = append(takes, durable("a", key, monthly, 1))
	}
	if d, lost := decideDurable(t, s, noon, takes...); lost != nil || !d[0].Allowed || d[3].Remaining != 99 {
		t.Fatalf("%+v, lost %v", d, lost)
	}
	if losses, err := s.Losses(t.Context()); err != nil || len(losses) > 0 {
		t.Fatalf("%+v, %v", losses, err)
	}
	for _, one := range cluster.Primaries() {
		one.Do("FLUSHALL")
	}
	if losses, err := s.Losses(t.Context()); err != nil || len(losses) < 2 {
		t.Fatalf("%+v, %v", losses, err)
	}
	if _, lost := decideDurable(t, s, 0, takes...); len(lost) == 0 {
		t.Error("nothing is lost")
	}
	if some, err := s.AcceptLoss(t.Context(), "api/a"); err != nil || !some {
		t.Fatal(some, err)
	}
	if d, lost := decideDurable(t, s, 0, takes...); lost != nil || d[0].Remaining != 99 {
		t.Errorf("%+v, lost %v", d, lost)
	}
}

// When a key no longer depends on what was lost.
func TestLossEnds(t *testing.T) {
	at := stint.At(time.Date(2026, 3, 10, 12, 20, 0, 0, time.UTC))
	for _, tt := range []struct {
		spec stint.Spec
		want time.Duration
	}{
		{stint.Spec{Requests: 10, Per: time.Hour}, 40 * time.Minute},
		{stint.Spec{Requests: 10, Per: time.Hour, FromFirst: true}, time.Hour},
		{stint.Spec{Requests: 10, Calendar: stint.Day}, 11*time.Hour + 40*time.Minute},
		{stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Hour}, time.Hour},
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Hour, Burst: 20}, 2 * time.Hour},
		{stint.Spec{Requests: 0, Per: time.Hour}, 0},
	} {
		limit := stint.MustLimit(tt.spec)
		if got := transaction.LossEnds(limit, at).Sub(at); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.spec, got, tt.want)
		}
	}
}

// A ledger that was set back by hand is a loss too.
func TestDurableLedgerSetBack(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "back")
	take := durable("a", "k", monthly, 1)
	mustCount(t, s, take, 99)
	mustCount(t, s, take, 98)
	server.Do("HSET", "back:durable", "seq", "1")
	mustBeLost(t, s, noon, take)
}

// A server that is emptied again while a loss is in force does not forget it.
func TestDurableLossTwice(t *testing.T) {
	server := testkit.StartRedis(t, "--appendonly", "yes")
	s, a := openIn(t, server, "twice"), durable("a", "k", monthly, 1)
	mustCount(t, s, a, 99)
	for range 3 {
		server.Do("FLUSHALL")
		found, err := s.Losses(t.Context())
		if err != nil || len(found) != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		mustBeLost(t, s, found[0].At, a)
	}
}
