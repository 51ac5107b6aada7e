package servers_test

import (
	"testing"

	"stint"
	"stint/chain/servers"
	"stint/store/memory"
	"stint/store/storetest"
)

// names are the servers of the suite.
var names = []string{"a:6379", "b:6379", "c:6379"}

// over returns a store on servers of these names.
func over(t testing.TB, open func(i int) stint.Store) *servers.Store {
	t.Helper()
	var list []servers.Server
	for i, name := range names {
		list = append(list, servers.Server{Name: name, Store: open(i)})
	}
	s, err := servers.New(list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestSuite: three stores in memory work as one store.
func TestSuite(t *testing.T) {
	storetest.Run(t, storetest.Options{
		New: func(t testing.TB) stint.Store {
			return over(t, func(int) stint.Store { return memory.New(memory.Options{Budget: 1 << 20}) })
		},
		Scattered: true,
	})
}
