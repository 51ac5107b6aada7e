package gossip_test

import (
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
)

// flood has some nodes ask for one unit now and then, each, for so long, and returns what
// passes.
func (f *fleet) flood(d time.Duration, every time.Duration, nodes []int, key stint.Key, l *stint.Limit) (passed int64) {
	f.Helper()
	asked := time.Duration(0)
	for begin := f.now; f.now < begin.Add(d); {
		for ; asked < f.now.Sub(begin); asked += every {
			for _, i := range nodes {
				if f.take(i, stint.Take{Key: key, Limit: l, Cost: 1}) {
					passed++
				}
			}
		}
		f.run(10 * time.Millisecond)
	}
	return passed
}

var (
	bucket = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 200})
	window = stint.MustLimit(stint.Spec{Requests: 100, Per: time.Second, CarryDebt: true})
)

// What passes too much does so once, and is paid back: not once in each window.
func TestOnce(t *testing.T) {
	for name, limit := range map[string]*stint.Limit{"bucket": bucket, "window": window} {
		f := newFleet(t, 1, 4)
		f.slow = 5 * time.Millisecond
		f.run(time.Second)
		passed := f.flood(20*time.Second, time.Millisecond, []int{0, 1, 2, 3}, "hot", limit)
		const rate, s = 100, 0.13
		most := int64(limit.Capacity()) + 20*rate
		if limit == bucket {
			most = 200 + 20*rate
		}
		extra := int64(3 * (float64(limit.Capacity()) + rate*s))
		if passed > most+extra {
			t.Errorf("%s: %d passed in 20 s, at most %d and %d too many may", name, passed, most, extra)
		}
		if passed < 20*rate*95/100 {
			t.Errorf("%s: only %d passed in 20 s", name, passed)
		}
	}
}

// A fleet that is cut in two lets each part have the limit, and forgets nothing of it.
func TestPartition(t *testing.T) {
	slow := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Hour, CarryDebt: true})
	f := newFleet(t, 2, 4)
	f.run(time.Second)
	f.split(2, true)
	passed := f.flood(3*time.Second, 5*time.Millisecond, []int{0, 3}, "a", slow)
	if passed < 199 || passed > 200 {
		t.Fatalf("%d passed in two parts, 100 each should", passed)
	}
	f.split(2, false)
	f.run(5 * time.Second)
	if more := f.flood(time.Second, 5*time.Millisecond, []int{0, 1, 2, 3}, "a", slow); more != 0 {
		t.Fatalf("%d passed after the parts found each other", more)
	}
	f.now = began.Add(time.Hour + time.Minute) // what was too much in this hour counts in the next
	f.run(2 * time.Second)
	if more := f.flood(time.Second, 5*time.Millisecond, []int{0, 1, 2, 3}, "a", slow); more != 0 {
		t.Fatalf("%d passed in the hour that pays for the one before", more)
	}
	f.now = began.Add(2*time.Hour + time.Minute)
	f.run(2 * time.Second)
	if more := f.flood(time.Second, 5*time.Millisecond, []int{0, 1, 2, 3}, "a", slow); more < 100 || more > 400 {
		t.Fatalf("%d passed in the hour after that", more)
	}
}

// Two parts that together took no more than the rate owe nothing when they meet again.
func TestPartitionWithin(t *testing.T) {
	f := newFleet(t, 3, 2)
	f.run(time.Second)
	f.split(1, true)
	passed := f.flood(60*time.Second, 25*time.Millisecond, []int{0, 1}, "a", bucket) // 40 a second each
	f.split(1, false)
	f.run(3 * time.Second)
	if passed < 4000 {
		t.Fatalf("%d passed below the rate", passed)
	}
	for i := range f.nodes {
		if left := f.left(i, "a", bucket); left < 150 {
			t.Errorf("node %d has %d left of 200 after 3 idle seconds", i, left)
		}
	}
}

// Two parts that together took twice the rate owe it.
func TestPartitionBeyond(t *testing.T) {
	f := newFleet(t, 4, 2)
	f.run(time.Second)
	f.split(1, true)
	passed := f.flood(20*time.Second, 10*time.Millisecond, []int{0, 1}, "a", bucket) // 100 a second each
	f.split(1, false)
	f.run(10 * time.Second)
	if passed < 3900 || passed > 2*(200+20*100) {
		t.Fatalf("%d passed in two parts", passed)
	}
	if more := f.flood(5*time.Second, 10*time.Millisecond, []int{0, 1}, "a", bucket); more > 5 {
		t.Errorf("%d passed while there is debt", more)
	}
	f.run(10 * time.Second)
	if left := f.left(0, "a", bucket); left == 0 {
		t.Error("the debt does not end")
	}
}

// A node that begins is told all, also what nodes took that are gone.
func TestNewcomer(t *testing.T) {
	f := newFleet(t, 5, 3)
	f.run(time.Second)
	day := stint.MustLimit(stint.Spec{Requests: 100, Per: 24 * time.Hour, CarryDebt: true})
	for _, limit := range []*stint.Limit{day, bucket} {
		f.flood(2*time.Second, time.Millisecond, []int{0, 1, 2}, "a", limit)
	}
	gone := f.nodes[0].ID()
	f.nodes[1].RemovePeer(gone)
	f.nodes[2].RemovePeer(gone)
	f.nodes = append(f.nodes[1:3:3], nil)[:2]
	f.clocks = f.clocks[:2]
	f.add(gossip.NewNode(gossip.Options{Seed: 77}))
	f.run(500 * time.Millisecond)
	if !f.nodes[2].Synced() {
		t.Error("the new node was not told")
	}
	if left := f.left(2, "a", day); left != 0 {
		t.Errorf("the new node believes that %d are left", left)
	}
	old, fresh := f.left(0, "a", bucket), f.left(2, "a", bucket)
	if old-fresh > 2 || fresh > old {
		t.Errorf("the new node believes that %d are left, the others %d", fresh, old)
	}
}

// What somebody gives back, or resets, is given back and reset everywhere.
func TestGiveBack(t *testing.T) {
	day := stint.MustLimit(stint.Spec{Requests: 100, Per: 24 * time.Hour, CarryDebt: true})
	f := newFleet(t, 6, 3)
	f.run(time.Second)
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: day, Cost: 30}}}
	if err := f.nodes[0].Decide(&call, f.now); err != nil {
		t.Fatal(err)
	}
	f.run(300 * time.Millisecond)
	undo := call.Results[0]
	f.take(0, stint.Take{Key: "a", Limit: day, Cost: 30, Op: stint.Refund, Undo: &undo})
	f.take(1, stint.Take{Key: "a", Limit: day, Cost: 7})
	f.run(300 * time.Millisecond)
	for i := range f.nodes {
		if left := f.left(i, "a", day); left != 93 {
			t.Errorf("node %d: %d left after 30 were given back and 7 taken", i, left)
		}
	}
	f.take(2, stint.Take{Key: "a", Limit: day, Op: stint.Reset})
	f.run(300 * time.Millisecond)
	f.take(0, stint.Take{Key: "a", Limit: day, Cost: 1})
	f.run(300 * time.Millisecond)
	for i := range f.nodes {
		if left := f.left(i, "a", day); left != 99 {
			t.Errorf("node %d: %d left after a reset", i, left)
		}
	}
}

// A call of several takes is all or none, and told as what it was.
func TestSeveral(t *testing.T) {
	day := stint.MustLimit(stint.Spec{Requests: 10, Per: 24 * time.Hour, CarryDebt: true})
	f := newFleet(t, 7, 2)
	f.run(time.Second)
	both := func(cost uint32) []stint.Take {
		return []stint.Take{{Key: "a", Limit: day, Cost: 1}, {Key: "b", Limit: day, Cost: cost}}
	}
	if !f.take(0, both(6)...) || f.take(0, both(6)...) {
		t.Fatal("the first passes, the second does not")
	}
	f.run(300 * time.Millisecond)
	if a, b := f.left(1, "a", day), f.left(1, "b", day); a != 9 || b != 4 {
		t.Errorf("the other node believes that %d and %d are left", a, b)
	}
}

// Messages that are no messages change nothing.
func TestDamaged(t *testing.T) {
	f := newFleet(t, 8, 2)
	f.take(0, stint.Take{Key: "a", Limit: window, Cost: 1})
	good := f.nodes[0].Tick(f.now)[0].Bytes
	for i := range good {
		f.nodes[1].Receive(good[:i], f.now)
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x81
		f.nodes[1].Receive(bad, f.now)
	}
	if st := f.nodes[1].Stats(); st.Damaged == 0 {
		t.Error("no message was damaged")
	}
}

func FuzzReceive(f *testing.F) {
	a, b := gossip.NewNode(gossip.Options{Seed: 1}), gossip.NewNode(gossip.Options{Seed: 2})
	a.AddPeer(2)
	b.AddPeer(1)
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: window, Cost: 1}, {Key: "b", Limit: bucket, Cost: 2}}}
	if err := a.Decide(&call, began); err != nil {
		f.Fatal(err)
	}
	for _, m := range b.Tick(began) {
		f.Add(m.Bytes)
		for _, answer := range a.Receive(m.Bytes, began) {
			f.Add(answer.Bytes)
		}
	}
	for _, m := range a.Tick(began) {
		f.Add(m.Bytes)
	}
	if q, list := a.StartQuery(&call, began); q != nil {
		f.Add(list[0].Bytes)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		n := gossip.NewNode(gossip.Options{Seed: 3})
		n.AddPeer(1)
		n.Tick(began)
		n.Receive(message, began)
		call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: window, Cost: 1}, {Key: "b", Limit: bucket, Cost: 2}}}
		if err := n.Decide(&call, began); err != nil {
			t.Fatal(err)
		}
	})
}
