package eventual_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"stint"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/memory"
	"stint/store/storetest"
)

// terms are those of the takes that are decided here.
var terms = &stint.Terms{Coordination: stint.Eventual}

// marked has all takes decided here that can be.
type marked struct{ stint.Store }

// Decide is part of stint.Store.
func (m marked) Decide(ctx context.Context, call *stint.Call) error {
	for i := range call.Takes {
		testkit.Coordinate(&call.Takes[i], terms)
	}
	return m.Store.Decide(ctx, call)
}

// TestSuite: a node alone with a store is that store, at times that calls fix, which the
// store decides, and at its own.
func TestSuite(t *testing.T) {
	storetest.Run(t, storetest.Options{
		Lends: true,
		New: func(testing.TB) stint.Store {
			return marked{eventual.New(memory.New(memory.Options{}), eventual.Options{})}
		},
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// BenchmarkDecide decides about a hundred busy keys: here, and by the store in memory.
func BenchmarkDecide(b *testing.B) {
	own := memory.New(memory.Options{})
	for _, test := range []struct {
		name  string
		store stint.Store
	}{{"eventual", marked{eventual.New(own, eventual.Options{})}}, {"memory", own}} {
		for load, limit := range map[string]*stint.Limit{"passes": fast, "window": window, "denied": thousand} {
			b.Run(test.name+"/"+load, func(b *testing.B) {
				keys := make([]stint.Key, 100)
				for i := range keys {
					keys[i] = name(test.name, i)
				}
				cost := uint32(0)
				if load == "denied" {
					cost = 1000
				}
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					call := stint.Call{Takes: make([]stint.Take, 1)}
					for i := 0; pb.Next(); i++ {
						call.Takes[0] = stint.Take{Key: keys[i%100], Limit: limit, Cost: max(1, cost), Handling: &stint.Handling{Terms: &stint.Terms{Coordination: stint.Eventual}}}
						if err := test.store.Decide(b.Context(), &call); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

func name(store string, i int) stint.Key { return stint.Key(fmt.Sprint(store, "/user=", i)) }
