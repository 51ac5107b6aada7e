package memory_test

import (
	"testing"

	"stint"
	"stint/store/memory"
	"stint/store/storetest"
)

func TestSuite(t *testing.T) {
	storetest.Run(t, storetest.Options{
		New:       func(testing.TB) stint.Store { return memory.New(memory.Options{}) },
		Lends:     true,
		Backwards: true,
	})
}
