package refusals_test

import (
	"testing"

	"stint"
	"stint/store/memory"
	"stint/store/refusals"
	"stint/store/storetest"
)

// TestSuite: around a store that nobody else uses it is that store.
func TestSuite(t *testing.T) {
	storetest.Run(t, storetest.Options{
		New: func(testing.TB) stint.Store {
			return refusals.New(memory.New(memory.Options{}), refusals.Options{})
		},
	})
}
