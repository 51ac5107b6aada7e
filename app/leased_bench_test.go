package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"stint"
	"stint/coord/lease"
	"stint/internal/redistest"
	"stint/limiter"
	"stint/rule"
	"stint/store/memory"
	"stint/store/redis"
)

// BenchmarkLeased is what a decision costs one process, through limiter with a rule that
// matches, on a hundred busy keys: by the store in memory, from what a real Redis lent, and
// by asking Redis each time.
func BenchmarkLeased(b *testing.B) {
	shared, err := redis.Open(redistest.Start(b).URL(), redis.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(shared.Close)
	leased := lease.New(shared, lease.Options{Part: shared.Part})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { leased.Run(ctx); close(done) }()
	b.Cleanup(func() { cancel(); <-done })
	for _, row := range []struct {
		name, mode string
		store      stint.Store
	}{
		{"memory", "strict", memory.New(memory.Options{})},
		{"leased", "leased", leased},
		{"strict", "strict", shared},
	} {
		b.Run(row.name, func(b *testing.B) { benchmarkDecisions(b, row.store, row.mode) })
	}
}

func benchmarkDecisions(b *testing.B, store stint.Store, mode string) {
	table, err := rule.Parse(rule.Source{Name: "rules.yaml", Data: []byte(`
domain: api
coordination: ` + mode + `
descriptors:
  - key: user
    rate_limit: {requests: 1000000, per: 1s, algorithm: token_bucket, burst: 4000000}
`)})
	if err != nil {
		b.Fatal(err)
	}
	l := limiter.New(store, table, limiter.Options{})
	warm := &limiter.Verdict{}
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; { // until all keys are busy
		if err := l.Decide(context.Background(), &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{
			Entries: []rule.Entry{{Key: "user", Value: fmt.Sprint(rand.IntN(100))}}, Cost: 1,
		}}}, warm); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	used := cpu()
	defer func() { b.ReportMetric(float64(cpu()-used)/float64(b.N), "cpu-ns/op") }()
	b.RunParallel(func(pb *testing.PB) {
		var v limiter.Verdict
		reqs := make([]limiter.Request, 100)
		for i := range reqs {
			reqs[i] = limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{
				Entries: []rule.Entry{{Key: "user", Value: fmt.Sprint(i)}}, Cost: 1,
			}}}
		}
		for pb.Next() {
			if err := l.Decide(context.Background(), &reqs[rand.IntN(100)], &v); err != nil || !v.Allowed {
				b.Errorf("%+v, %v", v.Decision, err)
				return
			}
		}
	})
}

// cpu returns the processor time of this process in nanoseconds, which a busy machine does
// not stretch as much.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
