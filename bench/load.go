package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	keyCount = 1_000_000
	zipf     = 1.1

	// loadLength is the number of prepared requests; longer runs start again from the first.
	loadLength = 1 << 21
)

// request is one take.
type request struct {
	key    string
	number uint32
}

// load holds the requests, the same for all contenders: one sequence for each goroutine. The text
// of a key is stored in the request, as in a server that has just read it, and not where a limiter
// may have stored its copy.
type load [2][]request

// newLoad makes requests for a million keys, few of them popular: Zipf with exponent 1.1. The
// popularity of a key does not depend on its number.
func newLoad() *load {
	l := new(load)
	shuffled := rand.New(rand.NewPCG(1, 1)).Perm(keyCount)
	for g := range l {
		r := rand.NewZipf(rand.New(rand.NewPCG(2, uint64(g))), zipf, 1, keyCount-1)
		numbers := make([]uint32, loadLength)
		var text strings.Builder
		text.Grow(loadLength * len(keyOf(0)))
		for i := range numbers {
			numbers[i] = uint32(shuffled[r.Uint64()])
			text.WriteString(keyOf(numbers[i]))
		}
		all := text.String()
		l[g] = make([]request, loadLength)
		for i, number := range numbers {
			l[g][i] = request{all[:len(keyOf(0))], number}
			all = all[len(keyOf(0)):]
		}
	}
	return l
}

// keyOf returns the key of a number; all are equally long.
func keyOf(number uint32) string { return fmt.Sprintf("api/user=%07d", number) }

// fill takes once from each key.
func (l *load) fill(t taker) {
	for number := range uint32(keyCount) {
		if key := keyOf(number); !t.take(key, number) {
			panic("a limiter denied the first take of " + key)
		}
	}
}

// hot takes n times from one key.
func (l *load) hot(t taker, _, n int) int {
	passed, key := 0, keyOf(0)
	for range n {
		if t.take(key, 0) {
			passed++
		}
	}
	return passed
}

// spread takes n times, from popular keys more often.
func (l *load) spread(t taker, goroutine, n int) int {
	passed := 0
	for i := range n {
		if r := &l[goroutine][i&(loadLength-1)]; t.take(r.key, r.number) {
			passed++
		}
	}
	return passed
}

// measure runs ask for about a given time on so many goroutines and returns the
// wall time per decision, all goroutines counted together as testing.B does.
func measure(ask func(goroutine, n int) int, goroutines int, about time.Duration) float64 {
	const probe = 20_000
	start := time.Now()
	ask(0, probe)
	n := max(probe, int(float64(probe)*float64(about)/float64(time.Since(start))))
	var wg sync.WaitGroup
	start = time.Now()
	for g := range goroutines {
		wg.Go(func() {
			if passed := ask(g, n); passed < n {
				panic(fmt.Sprintf("%d of %d denied: what is measured is not what it should be", n-passed, n))
			}
		})
	}
	wg.Wait()
	return float64(time.Since(start)) / float64(n*goroutines)
}

// heap returns the bytes of live heap.
func heap() float64 {
	runtime.GC()
	runtime.GC() // frees what finalizers released in the first run
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// allocations returns the allocations of one take from a known key.
func (l *load) allocations(t taker) float64 {
	const n = 10_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.spread(t, 0, n)
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n
}
