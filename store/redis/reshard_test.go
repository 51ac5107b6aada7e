package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// A slot moves from one server to another while calls use its keys: every decision counts once,
// wherever its key is (MOVED and ASK). Only a call whose keys are on both sides cannot be decided
// (TRYAGAIN): it gets that error, and charges nothing.
func TestSlotMoves(t *testing.T) {
	t.Parallel() // most of the time servers only find each other
	cluster := testkit.StartRedisCluster(t, 3)
	cluster.Timeout(testkit.Steady)
	s, err := redis.Open(cluster.URL(), redis.Options{Namespace: "move", Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	limits := []*stint.Limit{forms[0], forms[4], forms[7], forms[8]}
	used := int64(0)
	ask := func(when string) {
		t.Helper()
		used++
		for i, limit := range limits {
			at := noon
			if i == 0 {
				at = 0 // otherwise one.lua does not decide it, and a bucket refills
			}
			if d := takeAt(t, s, at, stint.Key(fmt.Sprint("key", i)), limit, 1); d.Remaining != 100-used && i != 0 || !d.Allowed {
				t.Fatalf("%s, key %d: %+v, want %d remaining", when, i, d, 100-used)
			}
		}
	}
	ask("before")

	slot := cluster.Nodes[0].Do("CLUSTER", "KEYSLOT", "{0}")
	var from, to *testkit.RedisServer
	for _, node := range cluster.Primaries() {
		if strings.HasPrefix(node.Do("GET", "{0}"), "-MOVED") {
			to = node
		} else {
			from = node
		}
	}
	keys := strings.Split(from.Do("CLUSTER", "GETKEYSINSLOT", slot, "100"), "\n")
	if len(keys) != len(limits) {
		t.Fatalf("in the one slot lie %q", keys)
	}
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID"))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
	ask("while nothing has moved")
	move := func(key string) {
		t.Helper()
		host, port, _ := strings.Cut(to.Addr, ":")
		if answer := from.Do("MIGRATE", host, port, key, "0", "5000"); answer != "OK" {
			t.Fatalf("%s: %s", key, answer)
		}
	}
	for i, key := range keys {
		move(key)
		ask(fmt.Sprint("after ", i+1, " of ", len(keys), " have moved"))
		if i == len(keys)-1 {
			break
		}
		call := stint.Call{Takes: make([]stint.Take, len(limits))}
		for i, limit := range limits {
			call.Takes[i] = stint.Take{Key: stint.Key(fmt.Sprint("key", i)), Limit: limit, Cost: 1}
		}
		err := s.Decide(t.Context(), &call)
		var problem *redis.Error
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), "TRYAGAIN") || problem.Hint == "" || errors.Is(err, stint.ErrUnknown) {
			t.Fatalf("a call with keys on both sides: %v", err)
		}
	}
	for _, node := range cluster.Primaries() {
		node.Do("CLUSTER", "SETSLOT", slot, "NODE", to.Do("CLUSTER", "MYID"))
	}
	ask("after the slot has moved")
	if answer := from.Do("GET", "{0}"); !strings.HasPrefix(answer, "-MOVED "+slot) {
		t.Errorf("the slot is still where it was: %s", answer)
	}
}
