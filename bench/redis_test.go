package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint"
	"stint/internal/testkit"
)

// sharedLimiter is a limiter from which many callers take one unit of each of some keys.
type sharedLimiter struct {
	name string
	open func(b testing.TB, server *testkit.RedisServer) func(ctx context.Context, keys []string) error
}

// sharedKeys is the number of keys, chosen by Zipf's law; so few that the memory of Redis does not
// matter.
const sharedKeys = 100_000

var sharedLimiters = []sharedLimiter{
	{"stint", openStint(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})},
	{"evalsha", inTest(openMinimal)},
	{"redis_rate", inTest(openRedisRate)},
}

// openStint opens our store with a limit.
func openStint(spec stint.Spec) func(testing.TB, *testkit.RedisServer) func(context.Context, []string) error {
	return inTest(func(address string) (askRedis, func(), error) { return openStintRedis(address, spec) })
}

// inTest opens a limiter until the end of a test.
func inTest(open openRedis) func(testing.TB, *testkit.RedisServer) func(context.Context, []string) error {
	return func(b testing.TB, server *testkit.RedisServer) func(context.Context, []string) error {
		ask, done, err := open(server.Addr)
		must(b, err)
		b.Cleanup(done)
		return ask
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRedis measures 1 and 64 callers with one key in each call, and with ten keys for the
// limiters that can. In each round all limiters have their turns, so that other work on the machine
// affects all of them.
func BenchmarkRedis(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) { sharedTurns(b, sharedLimiters, callers, 1) })
		b.Run(fmt.Sprint(callers, " callers, 10 keys"), func(b *testing.B) { sharedTurns(b, sharedLimiters[:1], callers, 10) })
	}
}

// minimalGroup is the minimal script for any number of keys: the least that a group of takes costs
// the server.
const minimalGroup = `local call, format = redis.call, string.format
local t = call('TIME')
local now = t[1] * 1000000 + t[2]
local cost, full, result = tonumber(ARGV[1]), tonumber(ARGV[2]), {now}
for i = 1, #KEYS do
  local old = tonumber(call('GET', KEYS[i]) or 0)
  local after = (old > now and old - now or 0) + cost
  result[i + 1] = old
  if after <= full then
    call('PSETEX', KEYS[i], format('%.0f', after / 1000 + 1), format('%.0f', now + after))
  end
end
return result`

// BenchmarkRedisGroup compares what a take costs the server with 64 callers of our store, and with
// one caller of the minimal script that sends 64 keys in each call.
func BenchmarkRedisGroup(b *testing.B) {
	floor := sharedLimiter{"floor", func(b testing.TB, server *testkit.RedisServer) func(context.Context, []string) error {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
		must(b, err)
		b.Cleanup(client.Close)
		script := rueidis.NewLuaScript(minimalGroup)
		return func(ctx context.Context, keys []string) error {
			return script.Exec(ctx, client, keys, []string{"1000", "1000000"}).Error()
		}
	}}
	b.Run("stint", func(b *testing.B) { sharedTurns(b, sharedLimiters[:1], 64, 1) })
	b.Run("floor", func(b *testing.B) { sharedTurns(b, []sharedLimiter{floor}, 1, 64) })
}

// BenchmarkRedisAlgorithms measures the cost of the other algorithms.
func BenchmarkRedisAlgorithms(b *testing.B) {
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket},
		{Algorithm: stint.TokenBucket, Step: true},
		{Algorithm: stint.LeakyBucket, Burst: 1000},
		{Algorithm: stint.FixedWindow},
		{Algorithm: stint.SlidingWindow, Blocks: 1},
		{Algorithm: stint.SlidingWindow, Blocks: 10},
		{Algorithm: stint.SlidingLog},
	} {
		spec.Requests, spec.Per = 1000, time.Second
		name := fmt.Sprint(spec.Algorithm, " ", spec.Blocks, " ", spec.Step)
		b.Run(name, func(b *testing.B) { sharedTurns(b, []sharedLimiter{{"stint", openStint(spec)}}, 64, 1) })
	}
}

// sharedCalls is the number of calls of each caller in a turn.
const sharedCalls = 400

// sharedTurn holds the results of a turn: wall time divided by the calls of all callers, the
// server's processor time for a call in microseconds, and the latencies.
type sharedTurn struct{ call, server, p50, p99 float64 }

// sharedTurns measures all limiters with so many callers and so many keys in each call, in b.N
// rounds. It reports the medians. For each limiter after the first it also reports the median ratio
// to the first in the same round: of the wall time, and of the latency of one caller.
func sharedTurns(b *testing.B, limiters []sharedLimiter, callers, takes int) {
	r := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, sharedKeys-1)
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprintf("rule%d/user=%d", i%takes, r.Uint64())
	}
	// A service sets a deadline. Without one the client works in another way.
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	asks, servers := make([]func(context.Context, []string) error, len(limiters)), make([]*testkit.RedisServer, len(limiters))
	for i, l := range limiters {
		servers[i] = testkit.StartRedis(b)
		asks[i] = l.open(b, servers[i])
		must(b, asks[i](ctx, keys[:takes]))
	}
	turns := make([][]sharedTurn, len(limiters))
	for round := 0; b.Loop(); round++ {
		for n := range limiters {
			i := (round + n) % len(limiters) // so that no limiter always follows the same one
			turns[i] = append(turns[i], takeTurn(b, servers[i], keys, takes, callers, func(keys []string) error { return asks[i](ctx, keys) }))
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of all limiters means nothing
	for i, l := range limiters {
		median := func(of func(mine, first sharedTurn) float64) float64 {
			var all []float64
			for n, turn := range turns[i] {
				all = append(all, of(turn, turns[0][n]))
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		b.ReportMetric(median(func(t, _ sharedTurn) float64 { return t.call }), l.name+"-µs/call")
		b.ReportMetric(median(func(t, _ sharedTurn) float64 { return t.server }), l.name+"-redis-µs/take")
		b.ReportMetric(median(func(t, _ sharedTurn) float64 { return t.p50 }), l.name+"-p50-µs")
		b.ReportMetric(median(func(t, _ sharedTurn) float64 { return t.p99 }), l.name+"-p99-µs")
		if i > 0 {
			b.ReportMetric(median(func(t, first sharedTurn) float64 { return t.call / first.call }), l.name+"-times")
			b.ReportMetric(median(func(t, first sharedTurn) float64 { return t.p50 / first.p50 }), l.name+"-p50-times")
		}
	}
}

// takeTurn runs the callers of a limiter at the same time, each with sharedCalls calls.
func takeTurn(b *testing.B, server *testkit.RedisServer, keys []string, takes, callers int, ask func(keys []string) error) sharedTurn {
	took := make([]time.Duration, callers*sharedCalls)
	var next atomic.Int64
	var all sync.WaitGroup
	runtime.GC() // so that no turn pays for the garbage of the one before
	cpu, begin := server.CPU(), time.Now()
	for range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(took); i = int(next.Add(1)) - 1 {
				from := i % (len(keys) / takes) * takes
				begin := time.Now()
				if err := ask(keys[from : from+takes]); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(begin)
			}
		})
	}
	all.Wait()
	n := float64(len(took)) * 1000
	turn := sharedTurn{call: float64(time.Since(begin)) / n, server: float64(server.CPU()-cpu) / n / float64(takes)}
	slices.Sort(took)
	turn.p50, turn.p99 = float64(took[len(took)/2])/1000, float64(took[len(took)*99/100])/1000
	return turn
}
