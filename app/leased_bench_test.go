//go:build unix

package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"stint"
	"stint/fleet/lease"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
	"stint/store/redis"
)

// BenchmarkLeased measures the cost of a decision in one process, through limiter with a matching
// rule, for two callers and a hundred busy keys: by the store in memory, and from leases of a
// real Redis. They take turns, so that a busy machine slows both alike. It reports
//
//	memory-ns, leased-ns   processor time of a decision, with all messages
//	of-memory              decisions per second with leases, as a part of those in memory,
//	                       in processor time, which other load does not change
//	p99                    the slowest one in a hundred, as a multiple of that in memory
//	redis-ns               Redis' processor time for each decision
func BenchmarkLeased(b *testing.B) {
	server := testkit.StartRedis(b)
	shared, err := redis.Open(server.URL(), redis.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(shared.Close)
	leased := lease.New(shared, lease.Options{Part: shared.Part})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { leased.Run(ctx); close(done) }()
	b.Cleanup(func() { cancel(); <-done })
	const decisions = 10_000
	one, other := newTurns(b, memory.New(memory.Options{}), "strict"), newTurns(b, leased, "leased")
	for range 20 { // until all keys are busy
		one.run(b, decisions)
		other.run(b, decisions)
	}
	one.used, one.single = nil, nil
	other.used, other.single = nil, nil
	redis := server.CPU()
	for n := 0; b.Loop(); n++ {
		if n%2 == 0 {
			one.run(b, decisions)
		}
		other.run(b, decisions)
		if n%2 == 1 {
			one.run(b, decisions)
		}
	}
	redis = server.CPU() - redis
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(part(one.used, 50), "memory-ns")
	b.ReportMetric(part(other.used, 50), "leased-ns")
	b.ReportMetric(part(one.used, 50)/part(other.used, 50), "of-memory")
	b.ReportMetric(part(other.single, 99)/part(one.single, 99), "p99")
	b.ReportMetric(float64(redis)/float64(len(other.used)*decisions), "redis-ns")
}

// BenchmarkLeasedStrict is the same with a call to Redis each time.
func BenchmarkLeasedStrict(b *testing.B) {
	shared, err := redis.Open(testkit.StartRedis(b).URL(), redis.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(shared.Close)
	t := newTurns(b, shared, "strict")
	for b.Loop() {
		t.run(b, 100)
	}
	b.ReportMetric(part(t.used, 50), "strict-ns")
}

// turns are the times of decisions by one store, turn by turn, in nanoseconds.
type turns struct {
	limiter *limiter.Limiter
	used    []float64 // processor time of a decision, in each turn
	single  []float64 // time of one decision in 16
}

func newTurns(b *testing.B, store stint.Store, mode string) *turns {
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(`
domain: api
coordination: ` + mode + `
descriptors:
  - key: user
    rate_limit: {requests: 1000000, per: 1s, algorithm: token_bucket, burst: 4000000}
`)})
	if err != nil {
		b.Fatal(err)
	}
	return &turns{limiter: limiter.New(store, table, limiter.Options{})}
}

// run is one turn: n requests of a hundred users, by two callers.
func (t *turns) run(b *testing.B, n int) {
	const callers = 2
	var all sync.WaitGroup
	single := make([][]float64, callers)
	used := cpu()
	for c := range callers {
		all.Go(func() { single[c] = t.call(b, n/callers) })
	}
	all.Wait()
	t.used = append(t.used, float64(cpu()-used)/float64(n))
	t.single = append(t.single, slices.Concat(single...)...)
}

// call makes n requests, and returns the times of one in 16.
func (t *turns) call(b *testing.B, n int) (single []float64) {
	var v limiter.Verdict
	reqs := make([]limiter.Request, 100)
	for i := range reqs {
		reqs[i] = limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{
			Entries: []rule.Entry{{Key: "user", Value: fmt.Sprint(i)}}, Cost: 1,
		}}}
	}
	var began time.Time
	for i := range n {
		if i%16 == 0 {
			began = time.Now()
		}
		if err := t.limiter.Decide(context.Background(), &reqs[rand.IntN(100)], &v); err != nil || !v.Allowed {
			b.Errorf("%+v, %v", v.Decision, err)
			return single
		}
		if i%16 == 0 {
			single = append(single, float64(time.Since(began)))
		}
	}
	return single
}

// part returns the number below which that many percent of the list are.
func part(list []float64, percent int) float64 {
	slices.Sort(list)
	return list[len(list)*percent/100]
}

// cpu returns the processor time of this process in nanoseconds, which other load on the machine
// changes less than the wall clock.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
