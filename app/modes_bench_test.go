//go:build unix

package app

import (
	"context"
	"testing"
	"time"

	"stint"
	"stint/fleet/eventual"
	"stint/fleet/gossip"
	"stint/fleet/lease"
	"stint/internal/testkit"
	"stint/store/memory"
	"stint/store/redis"
)

// BenchmarkModes measures a decision in each mode, through limiter with a matching rule, in one
// process, turn by turn: by the wall clock, for two callers and a hundred busy keys, with a real
// Redis if the mode needs a store. It reports the median of each in nanoseconds. It does not
// measure the slowest one in a hundred: between its turns a key is idle, and its leases are
// returned; see BenchmarkLeased.
func BenchmarkModes(b *testing.B) {
	shared, err := redis.Open(testkit.StartRedis(b).URL(), redis.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(shared.Close)
	leased := lease.New(shared, lease.Options{Part: shared.Part})
	alone := eventual.New(shared, eventual.Options{Part: shared.Part})
	beside(b, leased.Run)
	beside(b, alone.Run)
	rows := []struct {
		name  string
		turns *turns
		n     int
	}{
		{"memory", newTurns(b, memory.New(memory.Options{}), "strict"), 10_000},
		{"strict", newTurns(b, shared, "strict"), 500},
		{"leased", newTurns(b, leased, "leased"), 10_000},
		{"eventual", newTurns(b, alone, "eventual"), 10_000},
		{"gossip", newTurns(b, talking{gossip.NewNode(gossip.Options{})}, "strict"), 10_000},
	}
	for range 20 { // until all keys are busy
		for _, row := range rows {
			row.turns.run(b, row.n)
		}
	}
	for _, row := range rows {
		row.turns.single = nil
	}
	for n := 0; b.Loop(); n++ {
		for i := range rows { // another one comes first each time
			row := rows[(i+n)%len(rows)]
			row.turns.run(b, row.n)
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, row := range rows {
		b.ReportMetric(part(row.turns.single, 50), row.name+"-ns")
	}
}

// beside runs something as long as the benchmark.
func beside(b *testing.B, run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { run(ctx); close(done) }()
	b.Cleanup(func() { cancel(); <-done })
}

// talking is a node of gossip, as a store.
type talking struct{ node *gossip.Node }

func (s talking) Decide(_ context.Context, call *stint.Call) error {
	return s.node.Decide(call, stint.At(time.Now()))
}
