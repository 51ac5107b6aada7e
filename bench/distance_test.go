package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint"
	"stint/chain/guard"
	"stint/internal/testkit"
	"stint/store/redis"
)

// distanceTimeout is the deadline of a call, the default of --store-timeout.
const distanceTimeout = guard.DefaultTimeout

// roundTrips are the round-trip times to the server.
var roundTrips = []time.Duration{500 * time.Microsecond, 1500 * time.Microsecond, 3 * time.Millisecond, 6 * time.Millisecond}

// BenchmarkDistance measures calls to a healthy Redis behind a slow network: our store behind its
// guard, and a bare EVALSHA through the same client with the same timeout, by turns. First requests
// arrive at random times, the same for both, and do not wait for each other. Then follows a closed
// loop, in which each caller waits for its answer, for one second: a failure policy answers at
// once, so a loop of a fixed number of calls would end too early.
//
// It reports for each the percentage of calls that missed the deadline (of ours: that the failure
// policy answered), the calls answered in a second, and the latencies of ours as a ratio to the
// bare ones.
func BenchmarkDistance(b *testing.B) {
	for _, roundTrip := range roundTrips {
		for _, rate := range []float64{50, 200, 1000, 5000} {
			b.Run(fmt.Sprintf("%v/%v a second", roundTrip, rate), func(b *testing.B) {
				distanceTurns(b, newDistance(b, roundTrip, distanceTimeout), open(rate, int(max(100, rate))))
			})
		}
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%v/%d in a closed loop", roundTrip, callers), func(b *testing.B) {
				distanceTurns(b, newDistance(b, roundTrip, time.Second), closed(callers, 100))
			})
		}
	}
}

// distanceTurns measures one round-trip time under one load.
func distanceTurns(b *testing.B, d *distance, load distanceLoad) {
	var all [2][]testkit.TimedCall
	var took [2]time.Duration
	for round := uint64(0); b.Loop(); round++ {
		for n, turn := range d.turn(round, load) {
			all[n], took[n] = append(all[n], turn.calls...), took[n]+turn.took
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of both means nothing
	ours, bare := testkit.SummarizeCalls(all[0]), testkit.SummarizeCalls(all[1])
	b.ReportMetric(percent(ours), "degraded-%")
	b.ReportMetric(percent(bare), "bare-missed-%")
	b.ReportMetric(float64(bare.P50)/1e6, "bare-p50-ms")
	b.ReportMetric(float64(bare.P99)/1e6, "bare-p99-ms")
	b.ReportMetric(float64(ours.P50)/float64(bare.P50), "p50-times")
	b.ReportMetric(float64(ours.P99)/float64(bare.P99), "p99-times")
	b.ReportMetric(float64(ours.Calls-ours.Failed)/took[0].Seconds(), "answers/s")
	b.ReportMetric(float64(bare.Calls-bare.Failed)/took[1].Seconds(), "bare-answers/s")
}

// TestDistance checks that a healthy Redis behind a slow network costs no more than five times what
// the goals of BenchmarkDistance allow beside a bare EVALSHA: 1 % more missed deadlines, 1.15 times
// the median and 1.3 times the 99th percentile. It tries six times, with longer and longer pauses,
// because the machine may be busy with other work for some seconds.
func TestDistance(t *testing.T) {
	loads := map[string]distanceLoad{
		"50 a second": open(50, 60), "1000 a second": open(1000, 200), "5000 a second": open(5000, 500),
	}
	for _, roundTrip := range roundTrips {
		d := newDistance(t, roundTrip, distanceTimeout)
		for name, load := range loads {
			var said string
			for try := range uint64(6) {
				time.Sleep(time.Duration(try) * time.Second) // until the other work is done
				turns := d.turn(try, load)
				if said = tooFar(turns[0].calls, turns[1].calls); said == "" {
					break
				}
			}
			if said != "" {
				t.Errorf("%v, %s: %s", roundTrip, name, said)
			}
		}
	}
}

// tooFar returns in which figures our calls exceed five times the goals, compared with the bare
// ones.
func tooFar(ours, bare []testkit.TimedCall) string {
	const times = 5
	o, b := testkit.SummarizeCalls(ours), testkit.SummarizeCalls(bare)
	switch {
	case percent(o) > times*(percent(b)+1):
		return fmt.Sprintf("%.1f %% are degraded where a bare EVALSHA misses %.1f %%", percent(o), percent(b))
	case float64(o.P50) > times*1.15*float64(b.P50):
		return fmt.Sprintf("half take longer than %v where those of a bare EVALSHA take %v", o.P50, b.P50)
	case float64(o.P99) > times*1.3*float64(b.P99):
		return fmt.Sprintf("1 %% take longer than %v where those of a bare EVALSHA take %v", o.P99, b.P99)
	}
	return ""
}

// A distanceLoad calls ask for one key after another, in an order that the seed determines.
type distanceLoad func(ctx context.Context, seed uint64, ask func(i int) error) []testkit.TimedCall

// open is a load of requests that do not wait for each other.
func open(rate float64, count int) distanceLoad {
	return func(ctx context.Context, seed uint64, ask func(i int) error) []testkit.TimedCall {
		return testkit.OpenLoop{Rate: rate, Count: count, Seed: seed}.Run(ctx, ask)
	}
}

// closed is a load of callers that each make so many calls, one after the other.
func closed(callers, each int) distanceLoad {
	return func(_ context.Context, _ uint64, ask func(i int) error) []testkit.TimedCall {
		calls := make([]testkit.TimedCall, callers*each)
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for i := caller; i < len(calls); i += callers {
					began := time.Now()
					calls[i].Err = ask(i)
					calls[i].Took = time.Since(began)
				}
			})
		}
		all.Wait()
		return calls
	}
}

// distance is a Redis behind a slow network, and its two clients: our store and a bare EVALSHA.
type distance struct {
	tb   testing.TB
	asks []func(key string) error
}

func newDistance(tb testing.TB, roundTrip, timeout time.Duration) *distance {
	server := testkit.StartRedis(tb)
	proxy := testkit.StartProxy(tb, server.Addr, testkit.ProxyOptions{Delay: roundTrip / 2})
	return &distance{tb, []func(key string) error{farStint(tb, proxy.Addr(), timeout), farEvalsha(tb, proxy.Addr(), timeout)}}
}

// distanceTurn holds the results of one load, and its duration.
type distanceTurn struct {
	calls []testkit.TimedCall
	took  time.Duration
}

// turn runs the same load on both, one after the other.
func (d *distance) turn(round uint64, load distanceLoad) (turns [2]distanceTurn) {
	for n := range d.asks {
		which := (int(round) + n) % len(d.asks)
		began := time.Now()
		calls := load(d.tb.Context(), round, func(i int) error { return d.asks[which](fmt.Sprintf("api/user=%d", i%1000)) })
		turns[which] = distanceTurn{calls, time.Since(began)}
	}
	return turns
}

// percent returns how many of a hundred calls failed.
func percent(s testkit.CallSummary) float64 { return 100 * float64(s.Failed) / float64(s.Calls) }

// farStint returns a function that calls our store behind its guard. A degraded answer is an error.
func farStint(b testing.TB, addr string, timeout time.Duration) func(key string) error {
	store, err := redis.Open("redis://"+addr, redis.Options{})
	must(b, err)
	b.Cleanup(store.Close)
	guarded := guard.New(store, guard.Options{Timeout: timeout})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	ask := func(key string) error {
		call := &stint.Call{Takes: []stint.Take{{Key: stint.Key(key), Limit: limit, Cost: 1, Handling: &stint.Handling{OnFailure: stint.Allow}}}}
		if err := guarded.Decide(b.Context(), call); err != nil {
			return err
		}
		if call.Results[0].Degraded {
			return context.DeadlineExceeded
		}
		return nil
	}
	for range 100 { // until it is connected and Redis has the script
		if ask("warm") == nil {
			break
		}
		time.Sleep(20 * time.Millisecond) // the breaker's pauses
	}
	return ask
}

// farEvalsha returns a function that calls the minimal script, one call for each command.
func farEvalsha(b testing.TB, addr string, timeout time.Duration) func(key string) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	must(b, err)
	b.Cleanup(client.Close)
	script := rueidis.NewLuaScript(minimal)
	must(b, script.Exec(b.Context(), client, []string{"warm"}, []string{"1000", "1000000"}).Error())
	return func(key string) error {
		ctx, cancel := context.WithTimeout(b.Context(), timeout)
		defer cancel()
		return script.Exec(ctx, client, []string{key}, []string{"1000", "1000000"}).Error()
	}
}
