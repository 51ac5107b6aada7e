package main

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"stint/internal/testkit"
)

// BenchmarkStall sends an open-loop load to a Redis with a round trip of 1.5 ms, and stops the
// network between them once in each round. It reports the number of calls that waited until their
// timeout, the longest latency, and the time from the end of the stall to the first call that Redis
// decided again.
func BenchmarkStall(b *testing.B) {
	for _, stall := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
		for _, rate := range []float64{50, 200, 1000, 5000} {
			b.Run(fmt.Sprintf("%v/%v a second", stall, rate), func(b *testing.B) { stalled(b, stall, rate) })
		}
	}
}

// stalled measures one length of the stall and one rate.
func stalled(b *testing.B, stall time.Duration, rate float64) {
	server := testkit.StartRedis(b)
	proxy := testkit.StartProxy(b, server.Addr, testkit.ProxyOptions{Delay: 750 * time.Microsecond})
	ask := farStint(b, proxy.Addr(), distanceTimeout)
	var waited, degraded int
	var worst, back time.Duration
	for round := uint64(0); b.Loop(); round++ {
		var resumed, decided atomic.Int64 // nanoseconds of Unix time
		const before, after = 200 * time.Millisecond, time.Second
		stop := time.AfterFunc(before, proxy.Stall)
		end := time.AfterFunc(before+stall, func() {
			resumed.Store(time.Now().UnixNano())
			proxy.Resume()
		})
		load := testkit.OpenLoop{Rate: rate, Count: int(rate * (before + stall + after).Seconds()), Seed: round}
		calls := load.Run(b.Context(), func(i int) error {
			err := ask(fmt.Sprintf("api/user=%d", i%1000))
			if at := time.Now().UnixNano(); err == nil && resumed.Load() != 0 && at > resumed.Load() {
				decided.CompareAndSwap(0, at)
			}
			return err
		})
		stop.Stop()
		end.Stop()
		for _, call := range calls {
			if call.Err != nil {
				degraded++
				if call.Took >= distanceTimeout/2 {
					waited++
				}
			}
			worst = max(worst, call.Took)
		}
		back += time.Duration(decided.Load() - resumed.Load())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(waited)/float64(b.N), "waited")
	b.ReportMetric(float64(degraded)/float64(b.N), "degraded")
	b.ReportMetric(float64(worst)/1e6, "worst-ms")
	b.ReportMetric(float64(back)/float64(b.N)/1e6, "back-ms")
}
