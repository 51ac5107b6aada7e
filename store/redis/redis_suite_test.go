package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
	"stint/store/storetest"
)

// stores counts the stores of all tests, to give each a namespace of its own.
var stores atomic.Int64

// open returns an empty store on the server.
func open(t testing.TB, server *testkit.RedisServer) *redis.Store {
	t.Helper()
	s, err := redis.Open(server.URL(), redis.Options{Namespace: fmt.Sprint("test", stores.Add(1))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// renewed returns a function that returns an empty store with a namespace of its own until t ends.
// It opens one only if all others are in use: connecting takes longer than most tests.
func renewed(open func() *redis.Store) func(t testing.TB) (s *redis.Store, namespace string) {
	var mu sync.Mutex
	var free []*redis.Store
	return func(t testing.TB) (s *redis.Store, namespace string) {
		mu.Lock()
		defer mu.Unlock()
		if len(free) == 0 {
			free = append(free, open())
		}
		s, free = free[len(free)-1], free[:len(free)-1]
		t.Cleanup(func() {
			mu.Lock()
			defer mu.Unlock()
			free = append(free, s)
		})
		namespace = fmt.Sprint("test", stores.Add(1))
		s.RenewForTest(namespace)
		return s, namespace
	}
}

// TestSuite runs as the user that docs/redis-operation.md describes: its rights suffice for all calls.
func TestSuite(t *testing.T) {
	server := testkit.StartRedis(t)
	storetest.Run(t, storetest.Options{
		New:       renewedAs(t, server.URL(), documented(t).rights, server),
		Backwards: true,
		Lends:     true,
		Slow:      true,
	})
	sufficed(t, server)
}

// TestSuiteGeneral runs TestSuite with decide.lua only.
func TestSuiteGeneral(t *testing.T) {
	server := testkit.StartRedis(t)
	next := renewed(func() *redis.Store {
		s := open(t, server)
		s.GeneralForTest()
		return s
	})
	storetest.Run(t, storetest.Options{
		New:       func(t testing.TB) stint.Store { s, _ := next(t); return s },
		Backwards: true,
		Lends:     true,
		Slow:      true,
	})
}

// inTurn are nodes that decide calls in turn.
type inTurn struct {
	nodes []*redis.Store
	calls int
}

func (s *inTurn) Decide(ctx context.Context, c *stint.Call) error {
	s.calls++
	return s.nodes[s.calls%len(s.nodes)].Decide(ctx, c)
}

// TestSuiteMixed runs the part about loans with two nodes in turn: decide.lua decides for one, as it
// does for nodes of older releases, and lease.lua and the quick scripts for the other.
func TestSuiteMixed(t *testing.T) {
	server := testkit.StartRedis(t)
	next := 0
	storetest.RunLoans(t, storetest.Options{
		New: func(t testing.TB) stint.Store {
			next++
			namespace := fmt.Sprint("mixed", next)
			older := openIn(t, server, namespace)
			older.GeneralForTest()
			return &inTurn{nodes: []*redis.Store{older, openIn(t, server, namespace)}, calls: next}
		},
		Lends: true,
		Slow:  true,
	})
}
