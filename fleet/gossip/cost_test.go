package gossip_test

import (
	"fmt"
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
	"stint/internal/testkit"
)

// told returns what all nodes have sent.
func (f *fleet) told() (s gossip.Stats) {
	for _, n := range f.nodes {
		one := n.Stats()
		s.Sent += one.Sent
		s.Bytes += one.Bytes
		s.Pairs += one.Pairs
	}
	return s
}

// The number of messages does not grow with the decisions, and their bytes grow at most with the
// counts that changed. docs/coordination-proof.md has its numbers from this test.
func TestCost(t *testing.T) {
	testkit.OneGoroutine(t)
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000000, Per: time.Second, Burst: 1000000})
	sizes := []int{3, 10, 30, 100}
	if testing.Short() {
		sizes = sizes[:3]
	}
	const length = 2
	for _, size := range sizes {
		for _, keys := range []int{1, 50} {
			messages := map[int]float64{}
			for _, each := range []int{100, 1000} { // decisions of each node and second
				f := newFleet(t, uint64(size), size)
				f.slow = time.Millisecond
				f.run(2 * time.Second)
				before := f.told()
				for step := range length * 100 {
					for i := range f.nodes {
						for k := range each / 100 {
							f.take(i, stint.Take{Key: stint.Key(fmt.Sprintf("api/user=customer-%08d", (step+k)%keys)), Limit: limit, Cost: 1})
						}
					}
					f.run(10 * time.Millisecond)
				}
				after := f.told()
				perNode := float64(after.Sent-before.Sent) / length / float64(size)
				bytes := float64(after.Bytes-before.Bytes) / float64(after.Pairs-before.Pairs) / float64(size-1)
				pairs := float64(after.Pairs-before.Pairs) / length / float64(size)
				messages[each] = perNode
				t.Logf("%3d nodes, %2d keys, %4d decisions a node and second: %4.0f messages a node and second, %3.0f counts, %.0f bytes each and peer, %.0f kB/s",
					size, keys, each, perNode, pairs, bytes, float64(after.Bytes-before.Bytes)/length/float64(size)/1000)
				if bytes > 80 {
					t.Errorf("%.0f bytes for a count", bytes)
				}
				if most := float64(size-1) * 10 * (1 + float64(keys*40)/1100); perNode > most+float64(size) {
					t.Errorf("%d nodes: %.0f messages a second of each, at most %.0f are needed", size, perNode, most)
				}
			}
			if keys == 1 && messages[1000] > messages[100]*1.1 {
				t.Errorf("%d nodes: messages grow with decisions: %v", size, messages)
			}
		}
		f := newFleet(t, uint64(size), size)
		f.slow = time.Millisecond
		f.run(2 * time.Second)
		f.spreads(t)
	}
}

// spreads measures how long it takes until all nodes count a take of one.
func (f *fleet) spreads(t *testing.T) {
	const times = 10
	day := stint.MustLimit(stint.Spec{Requests: 100, Per: 24 * time.Hour, CarryDebt: true})
	var sum, worst time.Duration
	for i := range times {
		key := stint.Key(fmt.Sprint("spread", i))
		f.run(time.Duration(f.r.IntN(10)) * 10 * time.Millisecond)
		f.take(i%len(f.nodes), stint.Take{Key: key, Limit: day, Cost: 1})
		begun := f.now
		for j := range f.nodes {
			for f.left(j, key, day) != 99 {
				f.run(10 * time.Millisecond)
			}
		}
		sum, worst = sum+f.now.Sub(begun), max(worst, f.now.Sub(begun))
	}
	t.Logf("%3d nodes: all know after %v, at most %v", len(f.nodes), sum/times, worst)
	if worst > 150*time.Millisecond {
		t.Errorf("%d nodes: not all know after %v", len(f.nodes), worst)
	}
}
