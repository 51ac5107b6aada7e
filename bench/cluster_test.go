package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// BenchmarkClusterPartitions compares calls of two keys in two partitions of a Cluster with calls of
// two keys in one, with 1 and 64 callers: the wall time, the processor time of all servers and their
// scripts. Both have turns in each round.
func BenchmarkClusterPartitions(b *testing.B) {
	cluster := testkit.StartRedisCluster(b, 3)
	store, err := redis.Open(cluster.URL(), redis.Options{})
	must(b, err)
	b.Cleanup(store.Close)
	limits := []*stint.Limit{
		stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second}),
		stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 100_000, Per: time.Minute}),
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			var turns [2][]clusterTurn
			for round := 0; b.Loop(); round++ {
				for n := range turns {
					i := (round + n) % len(turns)
					turns[i] = append(turns[i], takeClusterTurn(b, cluster, store, limits, callers, i == 1))
				}
			}
			b.ReportMetric(0, "ns/op")
			for name, of := range map[string]func(t clusterTurn) float64{
				"call":    func(t clusterTurn) float64 { return t.call },
				"redis":   func(t clusterTurn) float64 { return t.server },
				"scripts": func(t clusterTurn) float64 { return t.scripts },
			} {
				var one, two, times []float64
				for i := range turns[0] {
					one, two = append(one, of(turns[0][i])), append(two, of(turns[1][i]))
					times = append(times, two[i]/one[i])
				}
				for _, list := range [][]float64{one, two, times} {
					slices.Sort(list)
				}
				b.ReportMetric(one[len(one)/2], name+"-in-one")
				b.ReportMetric(two[len(two)/2], name+"-in-two")
				b.ReportMetric(times[len(times)/2], name+"-times")
			}
		})
	}
}

// clusterTurn holds what a call cost in a turn: its time and the processor time of the servers, both
// in microseconds, and the number of scripts.
type clusterTurn struct{ call, server, scripts float64 }

func takeClusterTurn(b *testing.B, cluster *testkit.RedisCluster, store *redis.Store, limits []*stint.Limit, callers int, apart bool) clusterTurn {
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	used := func() (cpu time.Duration, scripts int64) {
		for _, one := range cluster.Primaries() {
			cpu += one.CPU()
			scripts += scriptsOf(one)
		}
		return cpu, scripts
	}
	calls := 50 * callers
	if callers == 1 {
		calls = 500
	}
	cpu, scripts := used()
	begin := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := int(next.Add(1)); i <= calls; i = int(next.Add(1)) {
				user := i * 7919 % 10_007
				call := stint.Call{Takes: make([]stint.Take, 2)}
				for n := range call.Takes {
					place := stint.Key(fmt.Sprint("user", user))
					if apart {
						place = stint.Key(fmt.Sprint("rule", n, "user", user))
					}
					call.Takes[n] = stint.Take{
						Key: stint.Key(fmt.Sprint(apart, "rule", n, "/user=", user)), Limit: limits[n], Cost: 1,
						Handling: &stint.Handling{Place: place},
					}
				}
				if err := store.Decide(ctx, &call); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	cpuAfter, scriptsAfter := used()
	n := float64(calls)
	return clusterTurn{
		call: float64(took.Microseconds()) / n, server: float64((cpuAfter - cpu).Microseconds()) / n, scripts: float64(scriptsAfter-scripts) / n,
	}
}

// scriptsOf returns how many scripts a server ran.
func scriptsOf(server *testkit.RedisServer) (n int64) {
	for line := range strings.Lines(server.Do("INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			n, _ = strconv.ParseInt(calls, 10, 64)
		}
	}
	return n
}
