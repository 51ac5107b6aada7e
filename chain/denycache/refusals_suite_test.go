package denycache_test

import (
	"testing"

	"stint"
	"stint/chain/denycache"
	"stint/store/memory"
	"stint/store/storetest"
)

// TestSuite: around a store without other users it works like that store.
func TestSuite(t *testing.T) {
	storetest.Run(t, storetest.Options{
		New: func(testing.TB) stint.Store {
			return denycache.New(memory.New(memory.Options{}), denycache.Options{})
		},
	})
}
