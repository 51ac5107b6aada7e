//go:build unix

package app

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/chain/denycache"
	"stint/fleet/lease"
	"stint/internal/testkit"
	"stint/store/redis"
)

// BenchmarkLeasedCost measures what leased keys cost Redis, beside strict ones: nodes get the same
// requests at random times, in both modes at once, each mode on a Redis of its own. after_loss is the
// default. The first 6 s of 21 are not counted. The others are 15 turns of a second: other work on the
// machine changes both modes of a turn alike. It reports for each limit a second, number of nodes, and
// rate of a key on each node
//
//	cpu        processor time of Redis, as a part of that with strict; the median of the turns
//	cpu-low    and cpu-high: between them this median is in 96 of 100 runs
//	cpu-sum    the same of all turns together
//	scripts    number of scripts, as a part of those with strict
//	served     requests that passed, as a part of those with strict
//	idle       processor time of Redis while the nodes have no requests, as a part of that with strict:
//	           its own work ten times a second, and heartbeats of nodes
func BenchmarkLeasedCost(b *testing.B) {
	for _, limit := range []uint32{10, 100, 300, 1000, 10_000} {
		for _, nodes := range []int{1, 2, 4, 8} {
			for _, rate := range []float64{5, 20, 100, 500, 5000} {
				load := costLoad{nodes: nodes, keys: max(1, min(6, int(2000/rate/float64(nodes)))), rate: rate}
				if rate*float64(nodes) > 5000 {
					continue
				}
				load.limit = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: limit, Per: time.Second, Burst: limit})
				b.Run(fmt.Sprintf("limit=%d/nodes=%d/rate=%v", limit, nodes, rate), func(b *testing.B) {
					strict, leased := newCostFleet(b, &load, stint.Strict), newCostFleet(b, &load, stint.Leased)
					strict.forget()
					time.Sleep(2 * time.Second) // nobody waits for anything: the servers are idle
					idle := strict.cpu() / 2
					load.run(6*time.Second, strict, leased) // until nodes know what saves calls
					strict.forget()
					leased.forget()
					var turns []float64
					for b.Loop() {
						for range 15 {
							cpu, of := leased.cpu(), strict.cpu()
							load.run(time.Second, strict, leased)
							turns = append(turns, (leased.cpu()-cpu)/(strict.cpu()-of))
						}
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(leased.calls()/strict.calls(), "scripts")
					b.ReportMetric(leased.cpu()/strict.cpu(), "cpu-sum")
					b.ReportMetric(idle/strict.cpu()*float64(len(turns)), "idle")
					slices.Sort(turns)
					n := float64(len(turns))
					b.ReportMetric(turns[len(turns)/2], "cpu")
					b.ReportMetric(turns[int(n/2-math.Sqrt(n))], "cpu-low")
					b.ReportMetric(turns[int(n/2+math.Sqrt(n))], "cpu-high")
					b.ReportMetric(float64(leased.passed.Load())/float64(strict.passed.Load()), "served")
				})
			}
		}
	}
}

type costLoad struct {
	limit       *stint.Limit
	nodes, keys int
	rate        float64 // requests a second for each key on each node
}

// costFleet are nodes of one mode and their Redis.
type costFleet struct {
	server *testkit.RedisServer
	mode   stint.Coordination
	nodes  []stint.Store
	passed atomic.Int64
	used   time.Duration
}

func newCostFleet(b *testing.B, l *costLoad, mode stint.Coordination) *costFleet {
	f := &costFleet{server: testkit.StartRedis(b), mode: mode}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range l.nodes {
		shared, err := redis.Open(f.server.URL(), redis.Options{})
		testkit.Must(b, err)
		denials := denycache.New(shared, denycache.Options{Notices: shared})
		all.Go(func() { denials.Run(ctx) })
		store := stint.Store(denials)
		if mode == stint.Leased {
			leased := lease.New(store, lease.Options{Part: shared.Part})
			all.Go(func() { leased.Run(ctx) })
			store = leased
		}
		f.nodes = append(f.nodes, store)
		b.Cleanup(shared.Close)
	}
	b.Cleanup(func() { cancel(); all.Wait() })
	time.Sleep(200 * time.Millisecond) // until notices arrive
	return f
}

// forget starts the figures anew.
func (f *costFleet) forget() {
	f.passed.Store(0)
	f.server.Do("CONFIG", "RESETSTAT")
	f.used = f.server.CPU()
}

// run sends the requests of all nodes to all fleets for some time.
func (l *costLoad) run(length time.Duration, fleets ...*costFleet) {
	var all sync.WaitGroup
	end := time.Now().Add(length)
	for node := range l.nodes {
		all.Go(func() {
			at := time.Now()
			for {
				at = at.Add(time.Duration(rand.ExpFloat64() / l.rate / float64(l.keys) * float64(time.Second)))
				if at.After(end) {
					return
				}
				time.Sleep(time.Until(at)) // clients do not wait for answers
				key := stint.Key(fmt.Sprint(rand.IntN(l.keys)))
				for i, first := 0, rand.IntN(len(fleets)); i < len(fleets); i++ { // the one that is asked first pays more
					f := fleets[(first+i)%len(fleets)]
					all.Go(func() { f.ask(node, key, l.limit) })
				}
			}
		})
	}
	all.Wait()
}

func (f *costFleet) ask(node int, key stint.Key, limit *stint.Limit) {
	take := stint.Take{Key: key, Limit: limit, Cost: 1}
	if f.mode == stint.Leased {
		take.Handling = &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased, KeptAfterLoss: !limit.ForStores().Lends()}}
	}
	call := stint.Call{Takes: []stint.Take{take}}
	if err := f.nodes[node].Decide(context.Background(), &call); err == nil && call.Results[0].Allowed {
		f.passed.Add(1)
	}
}

// cpu returns the processor time of the server, without that of one that does nothing.
func (f *costFleet) cpu() float64 { return (f.server.CPU() - f.used).Seconds() }

// calls returns the number of scripts.
func (f *costFleet) calls() (calls float64) {
	for line := range strings.Lines(f.server.Do("INFO", "commandstats")) {
		var n float64
		name, rest, _ := strings.Cut(line, ":")
		if _, err := fmt.Sscanf(rest, "calls=%f", &n); err == nil && strings.HasPrefix(name, "cmdstat_eval") {
			calls += n
		}
	}
	return calls
}
