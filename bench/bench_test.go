package main

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var sharedLoad = sync.OnceValue(newLoad)

// each runs a benchmark for every contender, after each key had its first take.
func each(b *testing.B, run func(b *testing.B, l *load, t taker)) {
	for _, c := range contenders {
		name, _, _ := strings.Cut(c.name, " ")
		b.Run(strings.TrimSuffix(name, ":"), func(b *testing.B) {
			l, t := sharedLoad(), c.make()
			l.fill(t)
			b.ReportAllocs()
			b.ResetTimer()
			run(b, l, t)
			b.StopTimer()
			if t.close != nil {
				t.close()
			}
		})
	}
}

func BenchmarkHotKey(b *testing.B) {
	each(b, func(b *testing.B, l *load, t taker) { l.hot(t, 0, b.N) })
}

// BenchmarkHotKeyTwo measures two goroutines that take from one key.
func BenchmarkHotKeyTwo(b *testing.B) {
	each(b, func(b *testing.B, l *load, t taker) { inTwo(b, t, l.hot) })
}

// BenchmarkMillionKeys measures takes from a million keys that Zipf's law chooses: few keys often,
// many rarely.
func BenchmarkMillionKeys(b *testing.B) {
	each(b, func(b *testing.B, l *load, t taker) { l.spread(t, 0, b.N) })
}

func BenchmarkMillionKeysTwo(b *testing.B) {
	each(b, func(b *testing.B, l *load, t taker) { inTwo(b, t, l.spread) })
}

// inTwo splits the work of a benchmark between two goroutines.
func inTwo(b *testing.B, t taker, ask func(t taker, goroutine, n int) int) {
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() { ask(t, g, (b.N+1)/2) })
	}
	wg.Wait()
}

// BenchmarkBytes reports the bytes of heap that a key costs: token buckets of a
// million keys, and sliding limits of a key that takes a million units a minute.
func BenchmarkBytes(b *testing.B) {
	for _, c := range contenders {
		name, _, _ := strings.Cut(c.name, " ")
		b.Run(strings.TrimSuffix(name, ":"), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(one(sharedLoad(), c, time.Millisecond)[bytesPerKey], "B/key")
			}
		})
	}
	b.Run("sliding", func(b *testing.B) {
		for b.Loop() {
			log, blocks := slidingBytes()
			b.ReportMetric(log, "B/log")
			b.ReportMetric(blocks, "B/60blocks")
		}
	})
}

// TestContenders checks that the limiters decide as measured: each allows the first take, and
// counts the takes of two goroutines.
func TestContenders(t *testing.T) {
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			limiter := c.make()
			var passed atomic.Int64
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for i := range 1000 {
						if limiter.take("key", uint32(i)) {
							passed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if passed.Load() != 2000 {
				t.Errorf("%d of 2000 passed", passed.Load())
			}
			if limiter.close != nil {
				limiter.close()
			}
		})
	}
}
