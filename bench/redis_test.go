package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"stint"
	"stint/internal/redistest"
	"stint/store/redis"
)

// A shared limiter is asked for one unit of each of some keys by many callers.
type sharedLimiter struct {
	name string
	open func(b testing.TB, server *redistest.Server) func(ctx context.Context, keys []string) error
}

// sharedKeys is how many keys are asked about, by Zipf's law; few enough that memory is
// not what is measured.
const sharedKeys = 100_000

// minimal is the least that a limit in Redis can be: one time per key, no name of the
// limit, no all-or-none, one number as an answer.
const minimal = `local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local old = tonumber(redis.call('GET', KEYS[1]) or 0)
if old < now then old = now end
local new = old + tonumber(ARGV[1])
if new - now > tonumber(ARGV[2]) then return {0, old - now} end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return {1, new - now}`

var sharedLimiters = []sharedLimiter{
	{"stint", openStint(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})},
	{"evalsha", func(b testing.TB, server *redistest.Server) func(context.Context, []string) error {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
		must(b, err)
		b.Cleanup(client.Close)
		script := rueidis.NewLuaScript(minimal)
		return func(ctx context.Context, keys []string) error {
			for _, key := range keys {
				if err := script.Exec(ctx, client, []string{key}, []string{"1000", "1000000"}).Error(); err != nil {
					return err
				}
			}
			return nil
		}
	}},
	{"redis_rate", func(b testing.TB, server *redistest.Server) func(context.Context, []string) error {
		client := goredis.NewClient(&goredis.Options{Addr: server.Addr})
		b.Cleanup(func() { client.Close() })
		limiter := redis_rate.NewLimiter(client)
		return func(ctx context.Context, keys []string) error {
			for _, key := range keys {
				if _, err := limiter.Allow(ctx, key, redis_rate.PerSecond(1000)); err != nil {
					return err
				}
			}
			return nil
		}
	}},
}

// openStint opens our store, with a limit.
func openStint(spec stint.Spec) func(testing.TB, *redistest.Server) func(context.Context, []string) error {
	return func(b testing.TB, server *redistest.Server) func(context.Context, []string) error {
		store, err := redis.Open(server.URL(), redis.Options{})
		must(b, err)
		b.Cleanup(store.Close)
		limits := make([]*stint.Limit, 10) // of one call, no two alike
		for i := range limits {
			limits[i] = stint.MustLimit(spec)
			spec.Requests++
		}
		calls := sync.Pool{New: func() any { return new(stint.Call) }}
		return func(ctx context.Context, keys []string) error {
			call := calls.Get().(*stint.Call)
			defer calls.Put(call)
			call.Takes = call.Takes[:0]
			for i, key := range keys {
				call.Takes = append(call.Takes, stint.Take{Key: stint.Key(key), Limit: limits[i], Cost: 1})
			}
			return store.Decide(ctx, call)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRedis has 1 and 64 callers ask one server for one key each, and for ten at once
// where a limiter can, and reports what that costs the server, the latencies, and how many
// times as long it takes as ours does.
func BenchmarkRedis(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, takes := range []int{1, 10} {
			ours := 0.0
			for _, l := range sharedLimiters {
				if takes > 1 && l.name != "stint" {
					continue // others ask one by one
				}
				b.Run(fmt.Sprintf("%d callers/%d keys/%s", callers, takes, l.name), func(b *testing.B) {
					elapsed := sharedRun(b, l, callers, takes)
					if l.name == "stint" {
						ours = elapsed
					}
					b.ReportMetric(elapsed/ours, "times-ours")
				})
			}
		}
	}
}

// minimalGroup is minimal for as many keys as it is given: the least that a group of takes
// costs a server.
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

// BenchmarkRedisGroup sets what a take costs the server where 64 callers ask our store
// beside the floor: a lone caller with the minimal script, 64 keys a call.
func BenchmarkRedisGroup(b *testing.B) {
	floor := sharedLimiter{"floor", func(b testing.TB, server *redistest.Server) func(context.Context, []string) error {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, ForceSingleClient: true, DisableCache: true})
		must(b, err)
		b.Cleanup(client.Close)
		script := rueidis.NewLuaScript(minimalGroup)
		return func(ctx context.Context, keys []string) error {
			return script.Exec(ctx, client, keys, []string{"1000", "1000000"}).Error()
		}
	}}
	b.Run("stint", func(b *testing.B) { sharedRun(b, sharedLimiters[0], 64, 1) })
	b.Run("floor", func(b *testing.B) { sharedRun(b, floor, 1, 64) })
}

// BenchmarkRedisAlgorithms says what the other algorithms cost.
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
		b.Run(name, func(b *testing.B) { sharedRun(b, sharedLimiter{name, openStint(spec)}, 64, 1) })
	}
}

// sharedRun has callers ask for b.N calls of so many keys; it returns the time a call.
func sharedRun(b *testing.B, l sharedLimiter, callers, takes int) float64 {
	server := redistest.Start(b)
	ask := l.open(b, server)
	r := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, sharedKeys-1)
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprintf("rule%d/user=%d", i%takes, r.Uint64())
	}
	// As a service asks: with a deadline. Without one the client works in another way.
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	must(b, ask(ctx, keys[:takes]))
	cpu := server.CPU()
	took := make([][]time.Duration, callers)
	var next atomic.Int64
	b.ResetTimer()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for {
				i := int(next.Add(1))
				if i > b.N {
					return
				}
				from := i % (len(keys) / takes) * takes
				begin := time.Now()
				if err := ask(ctx, keys[from:from+takes]); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(begin))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(server.CPU()-cpu)/float64(b.N*takes)/1000, "redis-µs/take")
	var sorted []time.Duration
	for _, t := range took {
		sorted = append(sorted, t...)
	}
	slices.Sort(sorted)
	b.ReportMetric(float64(sorted[len(sorted)/2])/1000, "p50-µs")
	b.ReportMetric(float64(sorted[len(sorted)*99/100])/1000, "p99-µs")
	return float64(b.Elapsed()) / float64(b.N)
}
