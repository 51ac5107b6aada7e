package gossip_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
	"stint/store/memory"
)

// BenchmarkDecide compares a decision with one by the store in memory.
func BenchmarkDecide(b *testing.B) {
	limits := map[string]*stint.Limit{
		"bucket": stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000000, Per: time.Second, Burst: 1000000}),
		"window": stint.MustLimit(stint.Spec{Requests: 1000000000, Per: time.Second, CarryDebt: true}),
	}
	stores := []struct {
		name string
		s    stint.Store
	}{{"memory", memory.New(memory.Options{})}, {"gossip", gossip.New(nil, gossip.StoreOptions{})}}
	var keys []stint.Key
	for i := range 100 {
		keys = append(keys, stint.Key(fmt.Sprintf("api/user=customer-%08d", i)))
	}
	for name, limit := range limits {
		for _, store := range stores {
			b.Run(name+"/"+store.name, func(b *testing.B) {
				call := stint.Call{Takes: []stint.Take{{Limit: limit, Cost: 1}}}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					call.Takes[0].Key = keys[i%len(keys)]
					if err := store.s.Decide(context.Background(), &call); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
