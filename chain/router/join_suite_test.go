package router_test

import (
	"context"
	"hash/fnv"
	"testing"

	"stint"
	"stint/chain/router"
	"stint/internal/testkit"
	"stint/store/memory"
	"stint/store/storetest"
)

// mixed gives each key of an algorithm that nodes can decide by themselves a Coordination by its
// text, so that calls use all stores.
type mixed struct{ stint.Store }

// Decide implements stint.Store.
func (m mixed) Decide(ctx context.Context, call *stint.Call) error {
	takes := call.Takes
	defer func() { call.Takes = takes }()
	call.Takes = append([]stint.Take(nil), takes...)
	for i := range call.Takes {
		h := fnv.New32a()
		h.Write([]byte(call.Takes[i].Key))
		if a := call.Takes[i].Limit; a != nil && (a.Algorithm() == stint.TokenBucket || a.Algorithm() == stint.FixedWindow) {
			testkit.Coordinate(&call.Takes[i], &stint.Terms{Coordination: stint.Coordination(h.Sum32() % 4)})
		}
	}
	return m.Store.Decide(ctx, call)
}

// TestSuite: three stores, each with its own keys, decide together like one.
func TestSuite(t *testing.T) {
	storetest.Run(t, storetest.Options{
		Scattered: true, NoBorrowing: true, SameNumbers: true,
		New: func(testing.TB) stint.Store {
			one := func() stint.Store { return memory.New(memory.Options{}) }
			return mixed{router.New(router.Stores{Asks: one(), Eventual: one(), Gossip: one()})}
		},
	})
}
