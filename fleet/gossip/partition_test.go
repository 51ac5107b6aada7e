package gossip_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
)

// Two parts that had a rest and then both took all that they could owe what they took too much,
// also when it is long used up by then, and what they could have taken before is no excuse.
func TestPartitionAfterRest(t *testing.T) {
	for name, limit := range map[string]*stint.Limit{"bucket": bucket, "window": window} {
		for _, met := range []bool{true, false} {
			f := newFleet(t, 11, 2)
			f.run(time.Second)
			if met {
				f.flood(time.Second, 20*time.Millisecond, []int{0, 1}, "a", limit)
			}
			f.split(1, true)
			f.run(12 * time.Second)
			passed := f.flood(10*time.Second, 5*time.Millisecond, []int{0, 1}, "a", limit) // 200 a second each
			f.run(3 * time.Second)
			f.split(1, false)
			f.run(2 * time.Second)
			owed := int(passed) - 15*100 - 100 // in windows that began
			if owed < 300 {
				t.Fatalf("%s: %d passed", name, passed)
			}
			took := f.flood(time.Duration(owed-100)*time.Second/100, 20*time.Millisecond, []int{0, 1}, "a", limit)
			if took > 20 {
				t.Errorf("%s, met before: %v: %d passed while %d were owed", name, met, took, owed)
			}
		}
	}
}

// A part that took no more than the rate of a key that the other one never heard of owes
// nothing: as long as it took from it, so long could the other one have.
func TestPartitionStranger(t *testing.T) {
	for name, limit := range map[string]*stint.Limit{"bucket": bucket, "window": window} {
		f := newFleet(t, 12, 4)
		f.run(time.Second)
		f.split(2, true)
		f.flood(30*time.Second, 25*time.Millisecond, []int{0, 1}, "a", limit) // 80 a second of 100
		f.flood(time.Second, 100*time.Millisecond, []int{2, 3}, "a", limit)
		f.split(2, false)
		f.run(4 * time.Second)
		for i := range f.nodes {
			if left := f.left(i, "a", limit); left < limit.Capacity() {
				t.Errorf("%s: node %d believes that %d of %d are left after 4 idle seconds", name, i, left, limit.Capacity())
			}
		}
	}
}

// A node that was cut off together with another one, and compared with that what they know,
// does not take what it missed of the others for news of now.
func TestPartitionCompared(t *testing.T) {
	for seed := range uint64(20) {
		f := newFleet(t, 100*seed, 4)
		f.run(time.Second)
		f.flood(time.Second, 20*time.Millisecond, []int{0, 1, 2, 3}, "a", bucket)
		f.split(2, true)
		f.flood(28300*time.Millisecond, 50*time.Millisecond, []int{0, 1, 2, 3}, "a", bucket) // 40 a second in each part
		f.split(2, false)                                                                    // shortly after those who are together compared
		f.flood(time.Second, 50*time.Millisecond, []int{0, 1, 2, 3}, "a", bucket)
		f.run(4 * time.Second)
		for i := range f.nodes {
			if left := f.left(i, "a", bucket); left < 200 {
				t.Errorf("seed %d: node %d believes that %d of 200 are left after 4 idle seconds", seed, i, left)
			}
		}
	}
}

// A node that stood still, while messages waited for it, does not take all that they tell for
// news of now.
func TestStoodStill(t *testing.T) {
	f := newFleet(t, 14, 3)
	f.run(time.Second)
	f.flood(time.Second, 20*time.Millisecond, []int{0, 1, 2}, "a", bucket)
	f.still[2] = true
	f.flood(25*time.Second, 25*time.Millisecond, []int{0, 1}, "a", bucket) // 80 a second
	f.still[2] = false
	f.run(4 * time.Second)
	for i := range f.nodes {
		if left := f.left(i, "a", bucket); left < 200 {
			t.Errorf("node %d believes that %d of 200 are left after 4 idle seconds", i, left)
		}
	}
}

// An answer that waited while its receiver was frozen does not count either: units were refilled
// since. A repeated query is answered.
func TestAnswerThatWaited(t *testing.T) {
	f := newFleet(t, 15, 2)
	ask := func(key stint.Key) *gossip.Query {
		call := stint.Call{Takes: []stint.Take{{Key: key, Limit: bucket, Cost: 1, Handling: &stint.Handling{Terms: &stint.Terms{AskPeers: true}}}}}
		q, list := f.nodes[1].StartQuery(&call, f.clock(1))
		f.post(1, list)
		return q
	}
	f.run(2 * time.Second)
	f.take(0, stint.Take{Key: "a", Limit: bucket, Cost: 150})
	before := ask("a")
	f.still[1] = true
	f.run(20 * time.Second)
	f.still[1] = false
	after := ask("b")
	f.run(50 * time.Millisecond)
	if left := f.left(1, "a", bucket); left != 200 {
		t.Errorf("%d of 200 are left by an answer of 20 seconds ago", left)
	}
	if f.nodes[1].EndQuery(before) || !f.nodes[1].EndQuery(after) {
		t.Error("who asked before is answered, or who asked after is not")
	}
	f.run(2 * time.Second)
	if left := f.left(1, "a", bucket); left != 200 {
		t.Errorf("%d of 200 are left 2 seconds later", left)
	}
}
