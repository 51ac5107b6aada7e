package redis_test

import (
	"fmt"
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

func TestSuite(t *testing.T) {
	server := testkit.StartRedis(t)
	storetest.Run(t, storetest.Options{
		New:       func(t testing.TB) stint.Store { return open(t, server) },
		Backwards: true,
		Lends:     true,
		Slow:      true,
	})
}

// TestSuiteGeneral runs TestSuite with decide.lua only.
func TestSuiteGeneral(t *testing.T) {
	server := testkit.StartRedis(t)
	storetest.Run(t, storetest.Options{
		New: func(t testing.TB) stint.Store {
			s := open(t, server)
			s.GeneralForTest()
			return s
		},
		Backwards: true,
		Lends:     true,
		Slow:      true,
	})
}
