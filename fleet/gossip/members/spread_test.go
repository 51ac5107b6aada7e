package members_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
)

// BenchmarkFleet measures fleets on loopback addresses.
//
//	go test -run xxx -bench Fleet -benchtime 1x -v ./fleet/gossip/members
func BenchmarkFleet(b *testing.B) {
	for _, size := range []int{3, 10, 30} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			fleet := startMany(b, size)
			for b.Loop() {
				for _, keys := range []int{1, 100} {
					for _, rate := range []int{1000, 10000} {
						fleet.load(b, keys, rate/size)
					}
				}
				fleet.spread(b)
				fleet.asks(b)
			}
			var ends sync.WaitGroup
			for _, n := range fleet {
				ends.Go(n.stop)
			}
			ends.Wait()
		})
	}
}

type nodes []*node

// startMany starts nodes that know each other.
func startMany(t testing.TB, size int) nodes {
	key := bytes.Repeat([]byte("k"), 32)
	fleet := nodes{startAt(t, key, gossip.DefaultInterval)}
	for range size - 1 {
		fleet = append(fleet, startAt(t, key, gossip.DefaultInterval, fleet[0]))
	}
	until(t, "a fleet", func() bool {
		for _, n := range fleet {
			if n.Stats().Peers != int64(size-1) {
				return false
			}
		}
		return true
	})
	return fleet
}

func (all nodes) stats() (s gossip.Stats) {
	for _, n := range all {
		one := n.Stats()
		s.Sent += one.Sent
		s.Bytes += one.Bytes
		s.Pairs += one.Pairs
		s.Repairs += one.Repairs
		s.Asked += one.Asked
	}
	return s
}

// load lets all nodes take units at a rate each, of several keys, and returns what was sent.
func (all nodes) load(t testing.TB, keys, each int) {
	const length = 3 * time.Second
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100000, Per: time.Second, Burst: 100000})
	names := make([]stint.Key, keys)
	for i := range names {
		names[i] = stint.Key(fmt.Sprintf("api/user=customer-%08d", i))
	}
	before := all.stats()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var taken atomic.Int64
	var done sync.WaitGroup
	for i, n := range all {
		done.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			call := stint.Call{Takes: []stint.Take{{Limit: limit, Cost: 1}}}
			for owed, k := 0.0, i; ; {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				for owed += float64(each) / 100; owed >= 1; owed-- {
					k++
					call.Takes[0].Key = names[k%keys]
					if err := n.Decide(ctx, &call); err != nil {
						t.Error(err)
					}
					taken.Add(1)
				}
			}
		})
	}
	done.Wait()
	after := all.stats()
	messages, told := float64(after.Sent-before.Sent), float64(after.Bytes-before.Bytes)
	pairs := float64(after.Pairs - before.Pairs)
	t.Logf("%3d nodes, %3d keys, %6d decisions/s: %6.1f messages/node/s, %6.1f per peer; %7.0f bytes/node/s; %5.1f bytes per changed pair and peer; %d repairs",
		len(all), keys, int(taken.Load())/3, messages/3/float64(len(all)), messages/3/float64(len(all))/float64(len(all)-1),
		told/3/float64(len(all)), told/pairs/float64(len(all)-1), after.Repairs-before.Repairs)
}

// spread measures how long it takes until all nodes count a take of one.
func (all nodes) spread(t testing.TB) {
	const times = 20
	var sum, worst time.Duration
	for i := range times {
		key := stint.Key(fmt.Sprint("spread", i))
		all[i%len(all)].take(t, stint.Take{Key: key, Limit: day, Cost: 1})
		begun := time.Now()
		for _, n := range all {
			for n.left(t, key) != day.Capacity()-1 {
				time.Sleep(time.Millisecond) // looks once in a while
			}
		}
		took := time.Since(begun)
		sum, worst = sum+took, max(worst, took)
	}
	t.Logf("%3d nodes: all know after %v, at most %v", len(all), (sum / times).Round(time.Millisecond), worst.Round(time.Millisecond))
}

// asks measures the cost of a take that asks all peers.
func (all nodes) asks(t testing.TB) {
	const times = 200
	before := all.stats()
	begun := time.Now()
	for i := range times {
		all[i%len(all)].take(t, stint.Take{Key: "asked", Limit: day, Cost: 1, Handling: &stint.Handling{Terms: &stint.Terms{AskPeers: true}}})
	}
	took := time.Since(begun) / times
	after := all.stats()
	t.Logf("%3d nodes: gossip: ask: %.1f questions a decision, %v", len(all), float64(after.Asked-before.Asked)/times, took.Round(time.Microsecond))
}
