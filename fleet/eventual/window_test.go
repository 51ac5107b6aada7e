package eventual_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/eventual"
)

// Keys whose windows end while they are told, and are taken from meanwhile, are told all the
// same, and so are all others.
func TestWindowsEndWhileTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		f.Store.Seen = func(*stint.Call) { pass(7 * time.Millisecond) }
		limits := []*stint.Limit{fast, stint.MustLimit(stint.Spec{Requests: 1000, Per: 50 * time.Millisecond, CarryDebt: true})}
		for range 300 {
			pass(time.Millisecond)
			for i := range 300 { // in several messages
				f.Decide(t, 0, take(stint.Key(fmt.Sprint("key", i)), limits[i%2], 1))
			}
		}
		pass(time.Second)
		if keys, units := f.Nodes[0].Unsent(); keys != 0 {
			t.Errorf("%d units of %d keys were never told", units, keys)
		}
	})
}
