package lease_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
)

// Nodes ask for units only where they expect to save calls: whatever they ask in vain, or for too few
// takes, costs the store more than strict mode. Takes arrive at random times.
func TestAsksOnlyWhatPays(t *testing.T) {
	hundred := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100})
	sixtyFour := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 64, Per: time.Second, Burst: 64})
	three := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 300, Per: time.Second, Burst: 300})
	const inPauses = 200 * 8 * 6 // once in each pause of 250 ms, and at times twice
	for _, test := range []struct {
		name  string
		limit *stint.Limit
		nodes int
		cost  uint32
		rate  float64 // takes a second of each burst
		burst int     // takes of each burst; 0: no pauses
		wants int64   // attempts to borrow in 200 s, at most
		lent  bool    // any of them brings units
	}{
		{"a rare key that is busy by chance", fast, 1, 1, 5, 0, 0, false},
		{"a busy key", fast, 1, 1, 20, 0, 300, true},
		{"a key that is used up", hundred, 8, 1, 300, 0, inPauses, true}, // of 300 takes a second
		{"a key of which all nodes together want too much", three, 8, 1, 800, 0, inPauses, true},
		{"a key that is used up, of which all nodes cannot get two units in a pause", sixtyFour, 20, 1, 300, 0, 100, false},
		{"a key that is used up, of which a pause refills one take", hundred, 4, 25, 200, 0, 100, true},
		{"a key that is busy for a moment again and again", fast, 1, 1, 500, 18, 12, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, test.nodes)
				var wants atomic.Int64
				f.Store.Seen = func(call *stint.Call) {
					for i := range call.Takes {
						if a := call.Takes[i].Loan(); a != nil && a.Want > 0 {
							wants.Add(1)
						}
					}
				}
				r := rand.New(rand.NewPCG(1, 2))
				takes, used := 0, time.Duration(0)
				for used < 200*time.Second {
					d := time.Duration(r.ExpFloat64() / test.rate * float64(time.Second))
					if takes++; test.burst > 0 && takes%test.burst == 0 {
						d += 5 * time.Second
					}
					used += d
					pass(d)
					f.Decide(t, takes%test.nodes, take("a", test.limit, test.cost))
				}
				calls, lent := uint64(0), uint64(0)
				for _, node := range f.Nodes {
					stats := node.Stats()
					calls, lent = calls+stats.Asks+stats.Messages, lent+stats.Lent
				}
				t.Logf("%d takes, %d calls and messages, %d attempts to borrow, %d units lent", takes, calls, wants.Load(), lent)
				if wants.Load() > test.wants || lent > 0 != test.lent {
					t.Errorf("%d attempts to borrow, want at most %d; %d units lent", wants.Load(), test.wants, lent)
				}
			})
		})
	}
}
