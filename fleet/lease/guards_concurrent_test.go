package lease_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/fleet/lease"
	"stint/fleet/sim"
)

// concurrent are nodes that several goroutines use at once, and the store that lends to them.
type concurrent struct {
	limits []*stint.Limit
	began  time.Time
	passed [2]atomic.Int64 // units of each key

	mu     sync.Mutex // guards states
	states map[stint.Key]*stint.State
}

func (c *concurrent) moment() lease.Moment {
	now := time.Now()
	return lease.Moment{Mono: int64(now.Sub(c.began)) + 1, Wall: now.UnixNano()}
}

// send decides a request as a store does.
func (c *concurrent) send(n *lease.Node, req *lease.Request) {
	c.mu.Lock()
	now, pass := stint.At(time.Now()), true
	decide := func(t *stint.Take, st *stint.State, cost uint32) stint.Decision {
		return sim.Exact(t.Limit, st, now, uint64(cost), t.Loan(), stint.Epoch{Began: stint.At(c.began)})
	}
	takes := req.Call.Takes
	for i := range takes {
		if c.states[takes[i].Key] == nil { // of a peek
			c.states[takes[i].Key] = new(stint.State)
		}
		if !takes[i].Independent {
			d := takes[i].Limit.Test(c.states[takes[i].Key], now, uint64(takes[i].Cost))
			pass = pass && d.Allowed
		}
	}
	req.Call.SizeResults()
	for i := range takes {
		t, cost := &takes[i], takes[i].Cost
		allowed := pass
		if !pass && !t.Independent && t.Limit.Test(c.states[t.Key], now, uint64(cost)).Allowed {
			cost = 0 // another take of the call was denied
		}
		req.Call.Results[i] = decide(t, c.states[t.Key], cost)
		req.Call.Results[i].Allowed = req.Call.Results[i].Allowed && (allowed || cost == 0)
	}
	c.mu.Unlock()
	_ = n.End(req, c.moment(), nil)
}

// ask sends takes of some keys, all or none, to a node.
func (c *concurrent) ask(n *lease.Node, cost uint32, keys ...int) {
	call := stint.Call{}
	for _, key := range keys {
		call.Takes = append(call.Takes, stint.Take{Key: stint.Key("ab"[key : key+1]), Limit: c.limits[key], Cost: cost, Handling: leasedHandling})
	}
	if req, _ := n.Begin(&call, c.moment(), false); req != nil {
		c.send(n, req)
	}
	for i := range call.Results {
		if !call.Results[i].Allowed {
			return
		}
	}
	for _, key := range keys {
		c.passed[key].Add(int64(cost))
	}
}

var leasedHandling = &stint.Handling{Terms: &stint.Terms{Coordination: stint.Leased}}

// TestConcurrent: no more than the limit passes if many callers take units at once that reports move
// to the store and back, by themselves and in calls of two keys.
func TestConcurrent(t *testing.T) {
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		c := &concurrent{began: time.Now(), states: map[stint.Key]*stint.State{"a": {}, "b": {}}}
		for _, burst := range []uint32{100_000, 5000} {
			c.limits = append(c.limits, stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Hour, Burst: burst}))
		}
		stop := make(chan struct{})
		var callers, ticks sync.WaitGroup
		for i := range 2 {
			n := lease.NewNode(lease.Options{Seed: uint64(i) + 1, Always: true})
			for caller := range 4 {
				callers.Go(func() {
					r := rand.New(rand.NewPCG(uint64(caller), uint64(i)))
					for k := 0; k < 400_000 && c.passed[0].Load() < c.limits[0].Capacity(); k++ {
						switch r.IntN(64) {
						case 0:
							c.ask(n, 1+r.Uint32N(500), 0)
						case 1, 2, 3:
							c.ask(n, 1+r.Uint32N(20), 0, 1)
						default:
							c.ask(n, 1, 0)
						}
					}
				})
			}
			ticks.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					for _, req := range n.Tick(c.moment()) {
						c.send(n, req)
					}
				}
			})
		}
		callers.Wait()
		close(stop)
		ticks.Wait()
		for key, l := range c.limits {
			if n := c.passed[key].Load(); n > l.Capacity() || n < l.Capacity()/2 {
				t.Errorf("%d units of key %d passed, of %d", n, key, l.Capacity())
			}
		}
	}
}
