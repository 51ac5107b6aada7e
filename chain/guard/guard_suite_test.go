package guard_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint"
	"stint/chain/guard"
	"stint/store/memory"
	"stint/store/storetest"
)

// TestSuite: a guard around a store that answers works like that store.
func TestSuite(t *testing.T) {
	storetest.Run(t, storetest.Options{
		New: func(testing.TB) stint.Store {
			// So long that no machine is too slow.
			return guard.New(memory.New(memory.Options{}), guard.Options{Timeout: time.Hour, Local: memory.New(memory.Options{Budget: 1})})
		},
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
