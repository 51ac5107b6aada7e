package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint"
	"stint/guard"
	"stint/internal/openloop"
	"stint/internal/redistest"
	"stint/internal/tcpproxy"
	"stint/store/redis"
)

// distanceTimeout is the deadline of a call, the default of --store-timeout.
const distanceTimeout = guard.DefaultTimeout

// BenchmarkDistance puts an open-loop load on a healthy Redis some way off: our store behind
// its guard, and beside it a bare EVALSHA through the same client with the same deadline. Both
// get the same arrivals, in turns.
//
// It reports for each the share of calls that missed the deadline (of ours: that the failure
// policy answered), and our latencies as multiples of the bare call's.
func BenchmarkDistance(b *testing.B) {
	for _, roundTrip := range []time.Duration{500 * time.Microsecond, 1500 * time.Microsecond, 3 * time.Millisecond, 6 * time.Millisecond} {
		for _, rate := range []float64{50, 200, 1000, 5000} {
			b.Run(fmt.Sprintf("%v/%v a second", roundTrip, rate), func(b *testing.B) { distanceTurns(b, roundTrip, rate) })
		}
	}
}

// distanceTurns is one distance and one rate.
func distanceTurns(b *testing.B, roundTrip time.Duration, rate float64) {
	server := redistest.Start(b)
	proxy := tcpproxy.Start(b, server.Addr, tcpproxy.Options{Delay: roundTrip / 2})
	asks := []func(key string) error{farStint(b, proxy.Addr()), farEvalsha(b, proxy.Addr())}
	var all [2][]openloop.Call
	for round := uint64(0); b.Loop(); round++ {
		for n := range asks {
			which := (int(round) + n) % len(asks)
			load := openloop.Load{Rate: rate, Count: int(max(100, rate)), Seed: round}
			all[which] = append(all[which], load.Run(b.Context(), func(i int) error {
				return asks[which](fmt.Sprintf("api/user=%d", i%1000))
			})...)
		}
	}
	b.ReportMetric(0, "ns/op") // of both together
	ours, bare := openloop.Summarize(all[0]), openloop.Summarize(all[1])
	percent := func(s openloop.Summary) float64 { return 100 * float64(s.Failed) / float64(s.Calls) }
	b.ReportMetric(percent(ours), "degraded-%")
	b.ReportMetric(percent(bare), "bare-missed-%")
	b.ReportMetric(float64(bare.P50)/1e6, "bare-p50-ms")
	b.ReportMetric(float64(bare.P99)/1e6, "bare-p99-ms")
	b.ReportMetric(float64(ours.P50)/float64(bare.P50), "p50-times")
	b.ReportMetric(float64(ours.P99)/float64(bare.P99), "p99-times")
}

// farStint asks our store behind its guard. A degraded answer is an error.
func farStint(b *testing.B, addr string) func(key string) error {
	store, err := redis.Open("redis://"+addr, redis.Options{})
	must(b, err)
	b.Cleanup(store.Close)
	guarded := guard.New(store, guard.Options{})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	ask := func(key string) error {
		call := &stint.Call{Takes: []stint.Take{{Key: stint.Key(key), Limit: limit, Cost: 1, OnFailure: stint.Allow}}}
		if err := guarded.Decide(b.Context(), call); err != nil {
			return err
		}
		if call.Results[0].Degraded {
			return context.DeadlineExceeded
		}
		return nil
	}
	for range 100 { // until connected, and the script is there
		if ask("warm") == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // the breaker's pauses
	}
	return ask
}

// farEvalsha asks by the minimal script, one call a command.
func farEvalsha(b *testing.B, addr string) func(key string) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	must(b, err)
	b.Cleanup(client.Close)
	script := rueidis.NewLuaScript(minimal)
	must(b, script.Exec(b.Context(), client, []string{"warm"}, []string{"1000", "1000000"}).Error())
	return func(key string) error {
		ctx, cancel := context.WithTimeout(b.Context(), distanceTimeout)
		defer cancel()
		return script.Exec(ctx, client, []string{key}, []string{"1000", "1000000"}).Error()
	}
}
