package memcached_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/memcached"
	"stint/store/storetest"
)

// stores counts the stores of all tests, to give each a namespace of its own.
var stores atomic.Int64

// open returns an empty store on the server.
func open(t testing.TB, server *testkit.MemcachedServer) *memcached.Store {
	t.Helper()
	s, err := memcached.Open(server.URL(), memcached.Options{Namespace: fmt.Sprint("test", stores.Add(1)), Connections: 1})
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	return s
}

// TestSuite counts windows in counters, which begin unused when their length changes.
func TestSuite(t *testing.T) {
	server := testkit.StartMemcached(t)
	storetest.Run(t, storetest.Options{
		New:         func(t testing.TB) stint.Store { return open(t, server) },
		Scattered:   true,
		Slow:        true,
		SameNumbers: true,
		Counters:    true,
	})
}

// TestSuiteOfItems keeps every state in an item, so that all numbers may change.
func TestSuiteOfItems(t *testing.T) {
	server := testkit.StartMemcached(t)
	storetest.Run(t, storetest.Options{
		New: func(t testing.TB) stint.Store {
			s := open(t, server)
			s.OnlyItemsForTest()
			return s
		},
		Scattered: true,
		Slow:      true,
	})
}
