package reservation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/memory"
)

// failing is a store of which one of so many calls fails, at random before it is decided or so that the answer is
// lost.
type failing struct {
	stint.Store
	mu   sync.Mutex
	rand *rand.Rand
	part uint64 // 0: no call fails
	lose bool   // answers about limits of a node get lost too
}

func (s *failing) Decide(ctx context.Context, call *stint.Call) error {
	s.mu.Lock()
	fails, lost := s.part > 0 && s.rand.Uint64N(s.part) == 0, s.rand.IntN(2) == 0
	s.mu.Unlock()
	if call.Takes[0].Coordination() == stint.Gossip && !s.lose {
		lost = false
	}
	if fails && !lost {
		return errAway
	}
	if err := s.Store.Decide(ctx, call); err != nil || !fails {
		return err
	}
	return fmt.Errorf("%w: %w", stint.ErrUnknown, errAway)
}

// nodesRules are limits of the store and, with gossip, of nodes.
const nodesRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {per: 15m, requests: 5, count: responses, statuses: [401], name: wrong, coordination: gossip}
  - key: broken
    rate_limit: {per: 15m, requests: 5, count: responses, statuses: [5xx], name: broken}
  - key: team
    rate_limit: {per: 15m, requests: 5, count: responses, statuses: [4xx], name: team, coordination: gossip}
`

// TestSettleRepeated settles a reservation of limits that nodes decide by themselves, by two nodes and with random
// failures: what fails can be repeated, units come back once, and all get the first outcome.
func TestSettleRepeated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for history := range 1000 {
		counts := &failing{Store: memory.New(memory.Options{Clock: testkit.NoonClock}), rand: r}
		nodes := [2]*node{newNode(t, counts, nodesRules), newNode(t, counts, nodesRules)}
		nodes[0].reserve(t, false) // stays charged
		text := nodes[0].reserve(t, history%5 == 0)
		counts.part, counts.lose = 1+r.Uint64N(4), history%2 == 0
		if counts.part == 1 {
			counts.part = 10
		}
		status := []int{200, 404, 401, 503}[r.IntN(4)]
		settled := 0
		for try := 0; settled < 3; try++ {
			if try == 1000 {
				t.Fatalf("history %d: not settled after %d tries", history, try)
			}
			other := status
			if settled > 0 {
				other = []int{200, 404, 401, 503}[r.IntN(4)]
			}
			if _, err := nodes[r.IntN(2)].Settle(t.Context(), text, other); err == nil {
				settled++
			}
		}
		want := map[int][3]int64{200: {4, 4, 4}, 404: {4, 4, 3}, 401: {3, 4, 3}, 503: {4, 3, 4}}[status]
		if history%5 == 0 && status == 401 { // twice
			want[0]--
		}
		counts.part = 0
		got := nodes[1].left(t)
		for i := range got {
			if got[i] > want[i] || got[i] < want[i] && (!counts.lose || i == 1) {
				t.Fatalf("history %d, status %d: %v remain, want %v", history, status, got, want)
			}
		}
	}
}

// TestSettleApartAtOnce settles one reservation by many callers of two nodes at once while calls fail.
func TestSettleApartAtOnce(t *testing.T) {
	for round := range 100 {
		counts := &failing{Store: memory.New(memory.Options{Clock: testkit.NoonClock}), rand: rand.New(rand.NewPCG(3, uint64(round))), part: 0}
		nodes := [2]*node{newNode(t, counts, nodesRules), newNode(t, counts, nodesRules)}
		nodes[0].reserve(t, false)
		text := nodes[0].reserve(t, false)
		counts.part = 4
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for range 1000 {
					if _, err := nodes[i%2].Settle(t.Context(), text, 200); err == nil {
						return
					}
				}
				t.Errorf("round %d: not settled", round)
			})
		}
		group.Wait()
		counts.part = 0
		if got := nodes[0].left(t); got != [3]int64{4, 4, 4} {
			t.Fatalf("round %d: %v remain", round, got)
		}
	}
}
