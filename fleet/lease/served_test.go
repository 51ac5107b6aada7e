package lease_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/memory"
)

// Where nodes lease, as many takes pass as in strict mode, within 3 %, and a key that is used up costs the store few
// calls: of each node one in each pause that brings its part of what refilled. If that is less than two units, it costs
// at most the takes that pass, and of each node one that is denied for each pause. Both modes get the same takes at the
// same random times.
func TestServedAsStrict(t *testing.T) {
	for _, test := range []struct {
		requests, burst uint32
		window          bool
		nodes           int
		rate            float64 // takes a second on each node
	}{
		{3, 3, false, 4, 20},
		{30, 30, false, 8, 100},
		{100, 100, false, 1, 500},
		{100, 100, false, 4, 500},
		{100, 100, false, 8, 20},
		{100, 100, false, 8, 500},
		{100, 70, false, 8, 100},
		{100, 400, false, 8, 100},
		{300, 300, false, 1, 500},
		{300, 300, false, 8, 500},
		{1000, 1000, false, 8, 500},
		{1000, 1000, false, 8, 2000},
		{10_000, 10_000, false, 2, 10_000},
		{100, 100, true, 8, 500},
		{1000, 1000, true, 4, 500},
	} {
		t.Run(fmt.Sprintf("limit=%d/burst=%d/window=%v/nodes=%d/rate=%v", test.requests, test.burst, test.window, test.nodes, test.rate), func(t *testing.T) {
			spec := stint.Spec{Algorithm: stint.TokenBucket, Requests: test.requests, Per: time.Second, Burst: test.burst}
			if test.window {
				spec = stint.Spec{Requests: test.requests, Per: time.Second}
			}
			limit := stint.MustLimit(spec)
			synctest.Test(t, func(t *testing.T) {
				const length = 12 * time.Second
				c := serve(t, limit, test.nodes, test.rate, length)
				if float64(c.passed) < 0.97*float64(c.strictPassed) {
					t.Errorf("%d passed, %d in strict mode", c.passed, c.strictPassed)
				}
				// The longest pause is a quarter of what a bucket takes to be whole. A node asks up to three times when a pause ends.
				pause := min(stint.LeasePause, time.Duration(test.burst)*time.Second/time.Duration(test.requests)/stint.LeasePart)
				most := 3 * test.nodes * int(length/pause)
				if test.window || pause.Seconds()*float64(test.requests) < float64(stint.LeaseShare*test.nodes) {
					most += c.passed
				}
				if calls := int(c.messages + c.takes); limit.ForStores().Lends() && calls > most {
					t.Errorf("%d calls, want at most %d for %d that passed", calls, most, c.passed)
				}
			})
		})
	}
}

// From 500 takes a second on each node on, nodes that lease cost the store at most a tenth of the work of strict mode,
// where nodes remember refusals too: a message about loans costs Redis 2.1 times as much as a take of an unlent key
// (docs/coordination-proof.md), and another take of a lent key up to 1.4 times.
func TestTenthOfStrict(t *testing.T) {
	for _, requests := range []uint32{100, 300, 1000, 10_000} {
		limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: requests, Per: time.Second, Burst: requests})
		for _, nodes := range []int{1, 2, 4, 8} {
			t.Run(fmt.Sprintf("limit=%d/nodes=%d", requests, nodes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := serve(t, limit, nodes, 500, 8*time.Second)
					if cost := 2.1*float64(c.messages) + 1.4*float64(c.takes); cost > 0.1*float64(c.strictTakes) {
						t.Errorf("%d messages and %d takes, %d takes in strict mode: %.3f", c.messages, c.takes, c.strictTakes, cost/float64(c.strictTakes))
					}
					if float64(c.passed) < 0.97*float64(c.strictPassed) {
						t.Errorf("%d passed, %d in strict mode", c.passed, c.strictPassed)
					}
				})
			})
		}
	}
}

// counted is what nodes that lease, and strict ones, did with the same takes.
type counted struct {
	passed, strictPassed int
	messages             int64 // calls of the store with a report about loans
	takes, strictTakes   int64 // other calls
}

// serve lets nodes that lease and nodes that ask a single store decide the same takes, which come at random times. First
// they come to know the load for some seconds, which are not counted.
func serve(t *testing.T, limit *stint.Limit, nodes int, rate float64, length time.Duration) (c counted) {
	f, strict, denied := start(t, nodes), memory.New(memory.Options{}), make([]time.Time, nodes)
	var messages, takes atomic.Int64
	f.Store.Seen = func(call *stint.Call) {
		if a := call.Takes[0].Loan(); a != nil && a.Node != 0 {
			messages.Add(1)
		} else {
			takes.Add(1)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	run := func(length time.Duration) {
		for began := time.Now(); time.Since(began) < length; {
			pass(time.Duration(r.ExpFloat64() / rate / float64(nodes) * float64(time.Second)))
			node := r.IntN(nodes)
			if !time.Now().Before(denied[node]) {
				c.strictTakes++
				d := testkit.Decide(t, strict, stint.Take{Key: "a", Limit: limit, Cost: 1})[0]
				if denied[node] = time.Now().Add(d.RetryAfter); d.Allowed {
					c.strictPassed++
				}
			}
			if f.Decide(t, node, take("a", limit, 1))[0].Allowed {
				c.passed++
			}
		}
	}
	run(5 * time.Second)
	c = counted{messages: -messages.Load(), takes: -takes.Load()}
	run(length)
	c.messages += messages.Load()
	c.takes += takes.Load()
	return c
}

// The retry time of a take that is denied for a pause is exact: before it the node denies, and after it a take passes.
func TestRetryOfPause(t *testing.T) {
	hundred := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100})
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 2)
		paused := 0
		for range 100 {
			var d stint.Decision
			for d.Allowed = true; d.Allowed; {
				pass(time.Millisecond)
				f.Decide(t, 1, take("a", hundred, 1))
				d = f.Decide(t, 0, take("a", hundred, 1))[0]
			}
			if d.RetryAfter > 10*time.Millisecond {
				paused++
			}
			pass(d.RetryAfter - time.Microsecond)
			if again := f.Decide(t, 0, take("a", hundred, 1))[0]; again.Allowed && d.RetryAfter > 10*time.Millisecond {
				t.Fatalf("%+v allows a take a microsecond earlier: %+v", d, again)
			}
			pass(time.Microsecond)
			if again := f.Decide(t, 0, take("a", hundred, 1))[0]; !again.Allowed {
				t.Fatalf("%+v, and after its retry time %+v", d, again)
			}
		}
		if paused < 50 {
			t.Errorf("%d of 100 denials were for a pause", paused)
		}
	})
}

// A take of more than half of the limit, which no node denies itself, has the retry time of the store, also when the
// key is used up: a pause would not save a call, and could outlast the time in which the bucket is whole.
func TestRetryOfLargeTake(t *testing.T) {
	hundred := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100})
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1)
		for range 500 { // the key is busy, and used up
			pass(5 * time.Millisecond)
			f.Decide(t, 0, take("a", hundred, 1))
		}
		denied := 0
		for range 1000 {
			pass(7 * time.Millisecond)
			d := f.Decide(t, 0, take("a", hundred, 100))[0]
			if d.Allowed {
				continue
			}
			denied++
			if d.RetryAfter != d.ResetAfter { // it needs the whole bucket
				t.Fatalf("%+v", d)
			}
		}
		if denied < 500 {
			t.Errorf("%d were denied", denied)
		}
	})
}

// A denial of a take that costs much is not in the way of one that costs less: also with takes of several costs a node
// asks the store for few of a key that is used up.
func TestDenialOfLowerCost(t *testing.T) {
	hundred := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100})
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 4)
		r := rand.New(rand.NewPCG(1, 2))
		passed, most := 0, 0
		const length, pauses = 10, 1000 / 250
		for began := time.Now(); time.Since(began) < length*time.Second; {
			pass(time.Duration(r.ExpFloat64() / 2000 * float64(time.Second)))
			cost := []uint32{1, 1, 1, 20, 60}[r.IntN(5)]
			if cost == 60 {
				most++ // the store decides each
			}
			if f.Decide(t, r.IntN(4), take("a", hundred, cost))[0].Allowed {
				passed++
			}
		}
		// Of each node two are denied for each pause: one that costs much, and one that costs less.
		most += passed + 2*4*length*pauses
		if calls := int(f.Store.Calls.Load()); calls > most {
			t.Errorf("%d calls, want at most %d for %d that passed", calls, most, passed)
		}
	})
}
