package memory

import (
	"context"
	"testing"
	"time"

	"stint"
)

// BenchmarkTogether decides calls of several takes, all or none, of existing keys.
func BenchmarkTogether(b *testing.B) {
	bucket := limit(b, stint.Spec{Algorithm: stint.TokenBucket, Requests: 100000, Per: time.Second, Burst: 1 << 30})
	window := limit(b, stint.Spec{Requests: 1 << 30, Per: time.Hour})
	log := limit(b, stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Hour})
	blocks := limit(b, stint.Spec{Algorithm: stint.SlidingWindow, Requests: 1 << 30, Per: time.Hour, Blocks: 60})
	none := limit(b, stint.Spec{Requests: 0, Per: time.Hour})
	full := limit(b, stint.Spec{Requests: 1, Per: 365 * 24 * time.Hour})
	for _, bench := range []struct {
		name  string
		takes []stint.Take
	}{
		{"two", []stint.Take{{Key: "api/user=42", Limit: bucket, Cost: 1}, {Key: "api/path=/orders", Limit: bucket, Cost: 1}}},
		{"four", []stint.Take{
			{Key: "api/user=42", Limit: bucket, Cost: 1},
			{Key: "api/path=/orders", Limit: window, Cost: 1},
			{Key: "api/remote_address=192.0.2.1", Limit: bucket, Cost: 1},
			{Key: "api/tenant=acme", Limit: window, Cost: 5},
		}},
		{"denied", []stint.Take{{Key: "api/user=42", Limit: bucket, Cost: 1}, {Key: "api/path=/orders", Limit: full, Cost: 1}}},
		{"never", []stint.Take{{Key: "api/user=42", Limit: bucket, Cost: 1}, {Key: "api/path=/orders", Limit: none, Cost: 1}}},
		{"map", []stint.Take{{Key: "api/user=42", Limit: bucket, Cost: 1}, {Key: "api/path=/orders", Limit: blocks, Cost: 1}}},
		{"log", []stint.Take{{Key: "api/user=42", Limit: bucket, Cost: 1}, {Key: "api/path=/orders", Limit: log, Cost: 1}}},
		{"same", []stint.Take{{Key: "api/user=42", Limit: bucket, Cost: 1}, {Key: "api/user=42", Limit: bucket, Cost: 1}}},
		{"borrows", []stint.Take{
			{Key: "api/user=42", Limit: full, Cost: 1, Borrows: 2},
			{Key: "api/pool", Limit: bucket, Cost: 1},
			{Key: "api/user=42/upto", Limit: window, Cost: 1},
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := New(Options{})
			call := stint.Call{Takes: bench.takes}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Decide(context.Background(), &call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
