package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"stint"
	"stint/bench/contest"
	"stint/store/redis"
)

// askRedis takes one unit of each of some keys.
type askRedis = func(ctx context.Context, keys []string) error

// openRedis connects a limiter to the Redis at an address, until done is called.
type openRedis func(address string) (ask askRedis, done func(), err error)

// minimal is the smallest script for a limit in Redis: one time for each key, no name of the limit,
// no all-or-none, one number as the answer.
const minimal = `local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local old = tonumber(redis.call('GET', KEYS[1]) or 0)
if old < now then old = now end
local new = old + tonumber(ARGV[1])
if new - now > tonumber(ARGV[2]) then return {0, old - now} end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return {1, new - now}`

// openMinimal sends the smallest script with the quickest client.
func openMinimal(address string) (askRedis, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return nil, nil, err
	}
	script := rueidis.NewLuaScript(minimal)
	return func(ctx context.Context, keys []string) error {
		for _, key := range keys {
			if err := script.Exec(ctx, client, []string{key}, []string{"1000", "1000000"}).Error(); err != nil {
				return err
			}
		}
		return nil
	}, client.Close, nil
}

// openRedisRate opens redis_rate with the same limit.
func openRedisRate(address string) (askRedis, func(), error) {
	client := goredis.NewClient(&goredis.Options{Addr: address})
	limiter := redis_rate.NewLimiter(client)
	return func(ctx context.Context, keys []string) error {
		for _, key := range keys {
			if _, err := limiter.Allow(ctx, key, redis_rate.PerSecond(1000)); err != nil {
				return err
			}
		}
		return nil
	}, func() { _ = client.Close() }, nil
}

// openStintRedis opens our store with a limit.
func openStintRedis(address string, spec stint.Spec) (askRedis, func(), error) {
	store, err := redis.Open("redis://"+address, redis.Options{})
	if err != nil {
		return nil, nil, err
	}
	limits := make([]*stint.Limit, 10) // different limits for the takes of a call
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
	}, store.Close, nil
}

// The figures of servers.
var (
	perSecond = column{"answers a second", false}
	perAnswer = column{"processor time of an answer", true}
)

// redisCallers is how many goroutines ask at the same time.
const redisCallers = 64

// redisClients compares what limits in Redis: each client alone with one server.
func redisClients(ctx context.Context, s settings, r *results) error {
	var programs contest.Programs
	defer programs.Stop()
	address, server, err := programs.Redis(ctx, s.dir)
	if err != nil {
		return err
	}
	r.command(fmt.Sprintf("redis, from %d goroutines of one process, each with keys of 100,000; more of that", redisCallers), "go -C bench test -run '^$' -bench Redis .")
	limit := stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000}
	var list []contestant
	for _, c := range []struct {
		name string
		role role
		open openRedis
	}{
		{"EVALSHA of the smallest script, by rueidis", isFloor, openMinimal},
		{"stint/store/redis", isOurs, func(address string) (askRedis, func(), error) { return openStintRedis(address, limit) }},
		{"go-redis/redis_rate v10", isPeer, openRedisRate},
	} {
		ask, done, err := c.open(address)
		if err != nil {
			return err
		}
		defer done()
		list = append(list, contestant{c.name, c.role, func(ctx context.Context) (map[column]float64, error) {
			return askFor(ctx, s.time, server, ask)
		}})
	}
	return r.turns(ctx, "Limits in Redis", s.rounds, list)
}

// askFor asks for a while, and measures calls and the processor time of the server.
func askFor(ctx context.Context, about time.Duration, server *contest.Program, ask askRedis) (map[column]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, about+time.Minute) // a deadline, as a service has
	defer cancel()
	before, err := server.CPU()
	if err != nil {
		return nil, err
	}
	var calls atomic.Int64
	failed := make(chan error, redisCallers)
	var all sync.WaitGroup
	began := time.Now()
	for caller := range redisCallers {
		all.Go(func() {
			random := rand.NewZipf(rand.New(rand.NewPCG(1, uint64(caller))), zipf, 1, 100_000-1)
			for time.Since(began) < about {
				if err := ask(ctx, []string{fmt.Sprintf("api/user=%d", random.Uint64())}); err != nil {
					failed <- err
					return
				}
				calls.Add(1)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	close(failed)
	if err := <-failed; err != nil {
		return nil, err
	}
	after, err := server.CPU()
	n := float64(calls.Load())
	return map[column]float64{perSecond: n / took.Seconds(), perAnswer: float64(after-before) / n}, err
}
