package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/storetest/model"
)

func limit(t testing.TB, spec stint.Spec) *stint.Limit {
	t.Helper()
	l, err := stint.NewLimit(spec)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// specs are one limit of 100 per hour under each algorithm.
var specs = []stint.Spec{
	{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Hour},
	{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Hour, Step: true},
	{Algorithm: stint.LeakyBucket, Requests: 100, Per: time.Hour, Burst: 99},
	{Algorithm: stint.FixedWindow, Requests: 100, Per: time.Hour},
	{Algorithm: stint.FixedWindow, Requests: 100, Per: time.Hour, FromFirst: true},
	{Algorithm: stint.SlidingLog, Requests: 100, Per: time.Hour},
	{Algorithm: stint.SlidingWindow, Requests: 100, Per: time.Hour, Blocks: 10},
}

func TestTraces(t *testing.T) {
	sections, err := model.LoadTraces("../../testdata/traces")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections {
		t.Run(section.Name, func(t *testing.T) {
			s := New(Options{})
			for _, step := range section.Steps {
				call := stint.Call{At: step.At, Takes: []stint.Take{step.Take(section.Limit)}}
				if err := s.Decide(context.Background(), &call); err != nil {
					t.Fatal(err)
				}
				if wrong := step.Check(call.Results[0]); wrong != "" {
					t.Fatalf("line %d: %s", step.Line, wrong)
				}
			}
		})
	}
}

// TestExactUnderContention: of many tries by 64 goroutines on one key exactly the limit passes,
// while other goroutines make the tables grow.
func TestExactUnderContention(t *testing.T) {
	for _, spec := range specs {
		t.Run(fmt.Sprint(spec.Algorithm, spec.Step, spec.FromFirst), func(t *testing.T) {
			for range 5 {
				hammer(t, limit(t, spec))
			}
		})
	}
}

func hammer(t *testing.T, l *stint.Limit) {
	t.Helper()
	at := stint.At(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))
	s := New(Options{Budget: 1, Clock: func() stint.Instant { return at }})
	var passed atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			other := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second})
			for i := range 300 {
				if s.Take("hot", l, 1).Allowed {
					passed.Add(1)
				}
				s.Take(stint.Key(fmt.Sprint("other", g, i)), other, 1)
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n != 100 {
		t.Fatalf("%d passed, want 100", n)
	}
}

// TestTogetherIsExact: calls of several random keys by many goroutines charge all
// or none, never wait in a circle, and in the end each key was charged exactly as
// often as calls passed.
func TestTogetherIsExact(t *testing.T) {
	at := stint.At(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))
	s := New(Options{Budget: 1, Clock: func() stint.Instant { return at }})
	var limits []*stint.Limit
	for _, spec := range specs {
		limits = append(limits, limit(t, spec))
	}
	const keys = 20
	var charged [keys]atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	swept := make(chan struct{})
	go func() { // tables are read and replaced meanwhile
		defer close(swept)
		for {
			select {
			case <-stop:
				return
			default:
				s.Sweep()
				s.Stats()
				for i := range s.shards {
					s.replace(&s.shards[i], s.shards[i].table.Load(), at)
				}
			}
		}
	}()
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			var call stint.Call
			for range 500 {
				call.Takes = call.Takes[:0]
				picked := rng.Perm(keys)[:1+rng.IntN(5)]
				for _, k := range picked {
					call.Takes = append(call.Takes, stint.Take{Key: stint.Key(fmt.Sprint("k", k)), Limit: limits[k%len(limits)], Cost: 1})
				}
				if err := s.Decide(context.Background(), &call); err != nil {
					t.Error(err)
					return
				}
				if d, _ := stint.Combine(call.Results); d.Allowed {
					for _, k := range picked {
						charged[k].Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	<-swept
	for k := range keys {
		d := s.Take(stint.Key(fmt.Sprint("k", k)), limits[k%len(limits)], 0)
		if used := d.Limit - d.Remaining; used != charged[k].Load() {
			t.Errorf("key %d: %d units used, %d charged by calls that passed", k, used, charged[k].Load())
		}
	}
}

// TestEviction: with ten times the keys that fit, keys over their limit stay over it, and each new
// key is decided.
func TestEviction(t *testing.T) {
	testkit.OneGoroutine(t)
	n := 10_000_000
	if testing.Short() {
		n = 300_000
	}
	at := stint.At(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))
	s := New(Options{Budget: 2 << 20, Clock: func() stint.Instant { return at }})
	l := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Hour})
	const attackers = 2000
	for i := range attackers {
		s.Take(stint.Key(fmt.Sprint("attacker", i)), l, 5)
	}
	buf := make([]byte, 0, 32)
	for i := range n {
		buf = fmt.Appendf(buf[:0], "honest%d", i)
		if !s.Take(stint.Key(buf), l, 1).Allowed {
			t.Fatalf("new key %d was denied", i)
		}
		if i%1000 == 0 {
			a := (i / 1000) % attackers
			if s.Take(stint.Key(fmt.Sprint("attacker", a)), l, 1).Allowed {
				t.Fatalf("after %d keys attacker %d passed again", i, a)
			}
		}
	}
	stats := s.Stats()
	if stats.EvictedOver != 0 || stats.EvictedIdle == 0 {
		t.Errorf("stats %+v: want only idle keys evicted", stats)
	}
	if stats.Bytes > stats.Budget+1<<18 {
		t.Errorf("%d bytes, budget %d", stats.Bytes, stats.Budget)
	}
}

// TestEvictionOfOverLimitKeys: if every key is over its limit, the one nearest its reset is evicted
// first, and counted.
func TestEvictionOfOverLimitKeys(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, test := range []struct {
		algorithm stint.Algorithm
		keys      int // about twice as many as fit
	}{{stint.TokenBucket, 120_000}, {stint.SlidingLog, 12_000}} {
		spec := stint.Spec{Algorithm: test.algorithm, Requests: 1, Per: time.Hour}
		now := stint.At(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))
		s := New(Options{Budget: 1 << 20, Clock: func() stint.Instant { return now }})
		l := limit(t, spec)
		n := test.keys
		for i := range n {
			now++
			s.Take(stint.Key(fmt.Sprint(i)), l, 1)
		}
		stats := s.Stats()
		if stats.EvictedOver == 0 || stats.EvictedIdle != 0 {
			t.Fatalf("stats %+v: want over-limit keys evicted and no others", stats)
		}
		// In each shard the oldest were evicted first, so of the newest eighth that would fit all
		// are there.
		for i := n - int(stats.Keys)/8; i < n; i++ {
			if s.Take(stint.Key(fmt.Sprint(i)), l, 1).Allowed {
				t.Fatalf("%v: key %d of %d was forgotten before older ones (%d kept)", spec.Algorithm, i, n, stats.Keys)
			}
		}
	}
}

func TestExpiredStatesAreReclaimed(t *testing.T) {
	now := stint.At(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))
	s := New(Options{Budget: 1, Clock: func() stint.Instant { return now }})
	for round := range 4 {
		for _, spec := range specs {
			spec.Per = time.Minute
			l := limit(t, spec)
			for i := range 2000 {
				s.Take(stint.Key(fmt.Sprint(round, i)), l, 1)
			}
		}
		now = now.Add(10 * time.Minute)
	}
	s.Sweep()
	if stats := s.Stats(); stats.Keys != 0 || stats.Expired == 0 || stats.Bytes > 64*minSlots*slotBytes*20 {
		t.Errorf("%+v after everything expired", stats)
	}
}

// TestManyNumbers: with more sets of numbers than the registry holds, each key is limited by its
// own, and changed numbers carry over.
func TestManyNumbers(t *testing.T) {
	now := stint.At(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))
	s := New(Options{Clock: func() stint.Instant { return now }})
	for i := range 3000 {
		l := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: uint32(i + 1), Per: time.Hour})
		key := stint.Key(fmt.Sprint("key", i))
		if d := s.Take(key, l, uint32(i+1)); !d.Allowed || d.Remaining != 0 {
			t.Fatalf("key %d: %+v", i, d)
		}
		more := limit(t, stint.Spec{Algorithm: stint.TokenBucket, Requests: uint32(i + 4001), Per: time.Hour})
		if d := s.Take(key, more, 0); d.Remaining != 4000 {
			t.Fatalf("key %d after the change: %+v", i, d)
		}
		if d := s.Take(key, l, 1); d.Allowed {
			t.Fatalf("key %d after changing back: %+v", i, d)
		}
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	if testkit.Race {
		return // the race detector makes sync.Pool drop items at random
	}
	s := New(Options{})
	l := limit(t, specs[0])
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: l, Cost: 1}, {Key: "b", Limit: l, Cost: 1}}}
	one := stint.Call{Takes: []stint.Take{{Key: "a", Limit: l, Cost: 1}}}
	for name, f := range map[string]func(){
		"take":     func() { s.Take("a", l, 1) },
		"one":      func() { _ = s.Decide(context.Background(), &one) },
		"together": func() { _ = s.Decide(context.Background(), &call) },
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkHotKey(b *testing.B) {
	s := New(Options{})
	l := limit(b, stint.Spec{Algorithm: stint.TokenBucket, Requests: 100000, Per: time.Second, Burst: 1 << 30})
	b.Run("take", func(b *testing.B) {
		for b.Loop() {
			s.Take("user=42", l, 1)
		}
	})
	b.Run("two limits", func(b *testing.B) {
		call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: l, Cost: 1}, {Key: "b", Limit: l, Cost: 1}}}
		for b.Loop() {
			_ = s.Decide(context.Background(), &call)
		}
	})
	b.Run("floor", func(b *testing.B) {
		base := time.Now()
		var tat atomic.Int64
		for b.Loop() {
			now := int64(time.Since(base))
			for {
				old := tat.Load()
				next := max(old, now) + 1000
				if next-now > 1<<50 || tat.CompareAndSwap(old, next) {
					break
				}
			}
		}
	})
}
