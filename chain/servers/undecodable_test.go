package servers_test

import (
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/memory"
)

// If states cannot be read the error has the indexes of the takes in the call, and all others are
// decided, whichever servers returned it.
func TestUndecodable(t *testing.T) {
	server := func() stint.Store { return memory.New(memory.Options{Clock: testkit.NoonClock, Budget: 1 << 16}) }
	testkit.CheckUndecodable(t, server, func(server func() stint.Store) stint.Store {
		return over(t, func(int) stint.Store { return server() })
	})
}
