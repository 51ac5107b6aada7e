package gossip

import (
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip/wire"
	"stint/internal/testkit"
)

// Nodes that know different periods of a counter know the same after they merged, in any order and
// however often.
func TestAddInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var all []wire.Mark
		count := wire.Count{Born: 1}
		for at := stint.Instant(1); len(all) < maxMarks; at += stint.Instant(1 + r.IntN(9)) {
			if count.Taken += r.Uint64N(9) + 1; r.IntN(4) == 0 {
				count.Given += r.Uint64N(count.Taken - count.Given)
			}
			if r.IntN(9) == 0 {
				count = wire.Count{Born: count.Born + 1, Taken: 1}
			}
			all = append(all, wire.Mark{At: at, Count: count})
		}
		var parts []wire.OriginCount
		for range 4 {
			p := wire.OriginCount{}
			for _, m := range all {
				if r.IntN(2) == 0 {
					p.Marks, p.Count = append(p.Marks, m), m.Count
				}
			}
			parts = append(parts, p)
		}
		merge := func(order []int) []wire.Mark {
			c := counter{}
			for _, i := range order {
				c.add(&parts[i])
				if parts[i].Newer(&c.Count) {
					c.Count = parts[i].Count
				}
			}
			return c.marks
		}
		want := merge([]int{0, 1, 2, 3})
		if got := merge(append(r.Perm(4), r.Perm(4)...)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v in one order, %+v in another", want, got)
		}
	}
}

// Two parts of a fleet use a key in turn, with rests. When they meet again, each knows the use that
// one node would have counted, but for the units of a period.
func TestUseBetweenRests(t *testing.T) {
	for algorithm, l := range map[string]*stint.Limit{
		"bucket": stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 100}),
		"window": stint.MustLimit(stint.Spec{Requests: 20, Per: 2 * time.Second, CarryDebt: true}),
	} {
		f := newNodes(t, 2)
		f.meet(0, 1)
		f.run(20)
		f.take(0, l, 1)
		f.take(1, l, 1)
		var truth stint.State
		l.Force(&truth, f.now, 2)
		f.run(70)
		f.cut = true
		for i := range 360 {
			for at := range f.list {
				if resting := at == 0 && i/120 == 1 || at == 1 && i/60%2 == 1; !resting && f.take(at, l, 2).Allowed {
					l.Force(&truth, f.now, 2)
				}
			}
			f.run(1)
		}
		f.cut = false
		f.run(30)
		want := l.ForStores().Used(&truth, f.now)
		for at := range f.list {
			e := f.list[at].shardOf(l.Algorithm(), "k").keys[name{"k", l.Algorithm()}]
			e.settle(e.next, e.nextAt, e.nextAt, f.now) // which must have all that was taken before
			if got := l.ForStores().Used(e.replay(f.now), f.now); got < want-25 || got > want+2 {
				t.Errorf("%s: node %d will count %d units as used of %d", algorithm, at, got, want)
			}
			d := f.take(at, l, 0)
			got := d.Limit - d.Remaining + d.Debt
			if algorithm == "bucket" {
				got = int64(d.ResetAfter * 10 / time.Second)
			}
			if want < 100 || got < want-25 || got > want+2 {
				t.Errorf("%s: node %d counts %d units as used of %d", algorithm, at, got, want)
			}
		}
	}
}

// However long a node is missing, the others keep few periods of a key. They keep hardly any while no
// report is missing, and none when nobody takes. A decision that charges nothing adds none.
func TestFewPeriods(t *testing.T) {
	l := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: 2 * time.Second, Burst: 100})
	f := newNodes(t, 2)
	f.meet(0, 1)
	f.take(0, l, 1)
	f.run(20)
	most := func() (n int) {
		for at := range f.list {
			for _, c := range f.list[at].shardOf(l.Algorithm(), "k").keys[name{"k", l.Algorithm()}].all() {
				if n = max(n, len(c.marks)); cap(c.marks) > maxMarks {
					t.Errorf("room for %d periods", cap(c.marks))
				}
			}
		}
		return n
	}
	run := func(intervals int, cost uint32, nodes ...int) (n int) {
		for range intervals {
			for _, at := range nodes {
				f.take(at, l, cost)
			}
			f.run(1)
			n = max(n, most())
		}
		return n
	}
	for _, nodes := range [][]int{{0, 1}, {0}} {
		if n := run(600, 1, nodes...); n < 2 || n > 2*manyMarks {
			t.Errorf("%d periods while no report is missing, by takes on %d", n, nodes)
		}
	}
	f.cut = true
	if n := run(600, 1, 0, 1); n < maxMarks/2 || n > maxMarks {
		t.Errorf("%d periods after a minute", n)
	}
	f.cut = false
	run(10, 1, 0, 1)
	f.run(2*shards + 20) // without takes, which begin periods
	if n := most(); n > 0 {
		t.Errorf("%d periods a quarter of a minute after the nodes met again", n)
	}
	f.take(0, l, 50)
	f.cut = true
	if n := run(15, 0, 0, 1); n > 3 {
		t.Errorf("%d periods of decisions that charged nothing", n)
	}
}

// What a node of the release before this one sends is understood, and so is what it is sent.
func TestEarlierRelease(t *testing.T) {
	decode := func(s string) []byte {
		b, err := hex.DecodeString(s)
		testkit.Must(t, err)
		return b
	}
	repair := decode("02030c00000000000000929bf8be81a3bd8cf70101010c000000000000000000")
	entries := decode("02040b00000000000000929bf8be81a3bd8cf701000180e0afa8a5ea9103010b000000000000000100000040006400008080bc8ac9d213000000016b0b01808082e288d2a3063c0000001e010b00000000000000000001011e000101000064640080d0dbc3f402000000016b0b0180f4e8e3cad4a3060000000080dac409010b00000000000000000001011400")
	day := stint.MustLimit(stint.Spec{Requests: 100, Per: 24 * time.Hour, CarryDebt: true})
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: 100 * time.Second, Burst: 100})
	f := newNodes(t, 2)
	check := func(answer []byte) {
		t.Helper()
		f.list[1] = NewNode(Options{Seed: 12})
		f.meet(0, 1)
		list := f.list[1].Tick(f.now)
		if i := slices.IndexFunc(list, func(m Message) bool { return m.Bytes[1] == wire.KindRepair }); !slices.Equal(list[i].Bytes, append(slices.Clip(repair), 1)) {
			t.Errorf("asks by %x", list[i].Bytes)
		}
		f.list[1].Receive(answer, f.now)
		if a, b := f.take(1, day, 0).Remaining, f.take(1, bucket, 0).Remaining; !f.list[1].Synced() || a != 70 || b != 80 {
			t.Errorf("after %x: %d and %d are left", answer, a, b)
		}
	}
	check(entries)
	f.take(0, day, 30)
	f.take(0, bucket, 20)
	f.list[0].Tick(f.now)
	for _, m := range f.list[0].Receive(repair, f.now) {
		if m.Bytes[0] != wire.WithoutPeriods {
			t.Errorf("version %d", m.Bytes[0])
		}
		check(m.Bytes)
	}
}

// Two parts of a fleet that were apart for so long that each took the other for dead owe nothing
// when they meet again, if they took no more than the rate.
func TestApartForLong(t *testing.T) {
	testkit.OneGoroutine(t)
	for name, l := range map[string]*stint.Limit{
		"bucket": stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 100}),
		"window": stint.MustLimit(stint.Spec{Requests: 20, Per: 2 * time.Second, CarryDebt: true}),
	} {
		for _, apart := range []time.Duration{20 * time.Minute, 40 * time.Minute, 70 * time.Minute} {
			f := newNodes(t, 2)
			f.meet(0, 1)
			run := func(d time.Duration) {
				for i := range int(d / DefaultInterval) {
					if i%4 == 0 {
						f.take(i/4%2, l, 1) // 2.5 a second
					}
					f.run(1)
				}
			}
			run(20 * time.Second)
			f.cut = true
			run(apart)
			f.cut = false
			run(20 * time.Second)
			for at := range f.list {
				if d := f.take(at, l, 0); d.Debt > 0 || d.Remaining < l.Capacity()/2 {
					t.Errorf("%s: after %v apart node %d has %d left, and a debt of %d", name, apart, at, d.Remaining, d.Debt)
				}
			}
		}
	}
}

// Nodes settle what they know at any time at which they may, while messages are lost, late and
// repeated and the fleet is divided. The settled use is that of the periods that are dropped, and in the
// end all nodes know what was taken.
func TestSettled(t *testing.T) {
	testkit.OneGoroutine(t)
	day := stint.MustLimit(stint.Spec{Requests: 100000, Per: 24 * time.Hour})
	slow := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: 24 * time.Hour, Burst: 10000})
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 9))
		l := []*stint.Limit{day, slow}[seed%2]
		f := newNodes(t, 2+int(seed%5))
		for i := range f.list {
			for k := range i {
				f.meet(i, k)
			}
		}
		type letter struct {
			at    stint.Instant
			to    int
			bytes []byte
		}
		var air []letter
		apart := 0 // nodes below are cut off from the others
		lost := []float64{0, 0.05, 0.5}[seed%3]
		post := func(from int, list []Message) {
			for _, m := range list {
				for to := range f.list {
					if to == from || m.To != 0 && m.To != f.list[to].id || (from < apart) != (to < apart) || r.Float64() < lost {
						continue
					}
					for range 1 + r.IntN(2) {
						air = append(air, letter{f.now.Add(time.Duration(r.IntN(400)) * time.Millisecond), to, m.Bytes})
					}
				}
			}
		}
		settle := func() {
			for _, n := range f.list {
				e := n.shardOf(l.Algorithm(), "k").keys[name{"k", l.Algorithm()}]
				if e == nil || e.nextAt > n.settledAt() {
					continue
				}
				e.settle(e.next, e.nextAt, e.nextAt, f.now)
				base := int64(0)
				for _, c := range e.all() {
					base += int64(c.base.Taken)
				}
				if got := l.ForStores().Used(&e.settled, f.now); got != base {
					t.Fatalf("seed %d: %d units are settled, of %d in dropped periods", seed, got, base)
				}
			}
		}
		step := func() {
			f.now = f.now.Add(10 * time.Millisecond)
			due := air
			air = nil
			for _, m := range due {
				if m.at > f.now {
					air = append(air, m)
				} else {
					post(m.to, f.list[m.to].Receive(m.bytes, f.now))
				}
			}
			for i, n := range f.list {
				if int(f.now/10_000)%10 == i {
					post(i, n.Tick(f.now))
				}
			}
			settle()
		}
		taken := int64(0)
		for range 800 {
			if r.IntN(4) == 0 {
				cost := 1 + r.IntN(9)
				f.take(r.IntN(len(f.list)), l, uint32(cost))
				taken += int64(cost)
				settle()
			}
			if r.IntN(40) == 0 {
				apart = r.IntN(len(f.list))
			}
			step()
		}
		apart, lost = 0, 0
		for range 3000 {
			step()
		}
		for i := range f.list {
			if left := f.take(i, l, 0).Remaining; left != l.Capacity()-taken {
				t.Fatalf("seed %d: node %d of %d believes %d are left, %d are", seed, i, len(f.list), left, l.Capacity()-taken)
			}
		}
	}
}

// Nodes that stop, one after the other, are forgotten an hour later, also by those that started
// meanwhile and heard of them. What is known of a key is settled all the time.
func TestReplaced(t *testing.T) {
	testkit.OneGoroutine(t)
	day := stint.MustLimit(stint.Spec{Requests: 1000000, Per: 24 * time.Hour})
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: 10 * time.Second, Burst: 100})
	f := newNodes(t, 4)
	for i := range f.list {
		for k := range i {
			f.meet(i, k)
		}
	}
	run := func(d time.Duration) {
		for i := range int(d / time.Second) {
			f.take(i%4, day, 1)
			f.take(i%4, bucket, 1)
			for k, n := range f.list {
				f.send(k, n.Tick(f.now))
			}
			f.now = f.now.Add(time.Second)
		}
	}
	settled := func() {
		t.Helper()
		for i, n := range f.list {
			e := n.shardOf(bucket.Algorithm(), "k").keys[name{"k", bucket.Algorithm()}]
			if age := f.now.Sub(e.settledAt); age > 4*time.Minute {
				t.Errorf("node %d has settled nothing for %v", i, age)
			}
		}
	}
	run(time.Minute)
	for i := range 24 {
		at := i % 4
		gone := f.list[at]
		f.send(at, gone.Last(f.now))
		f.list[at] = NewNode(Options{Seed: uint64(100 + i)})
		for k, n := range f.list {
			if k != at {
				n.RemovePeer(gone.id)
				f.meet(at, k)
			}
		}
		run(11 * time.Minute)
		settled()
	}
	run(65 * time.Minute)
	settled()
	for i, n := range f.list {
		if origins, counters := len(n.session.origins), len(n.shardOf(day.Algorithm(), "k").keys[name{"k", day.Algorithm()}].counters); origins != 3 || counters != 3 {
			t.Errorf("node %d knows %d nodes, and counts of %d", i, origins, counters)
		}
	}
}

// While a report of a node that stopped is missing, nothing later is settled.
func TestLastReportLost(t *testing.T) {
	l := stint.MustLimit(stint.Spec{Requests: 100, Per: 24 * time.Hour})
	for _, lost := range []bool{false, true} {
		f := newNodes(t, 2)
		f.meet(0, 1)
		f.run(20)
		f.take(0, l, 1)
		stopped := f.now
		for _, m := range f.list[0].Last(f.now) {
			if !lost || m.Bytes[1] == wire.KindBeat {
				f.list[1].Receive(m.Bytes, f.now)
			}
		}
		f.list = f.list[1:]
		f.run(100)
		if waits := f.list[0].settledAt() <= stopped; waits != lost {
			t.Errorf("the last report was lost: %v; others wait for it: %v", lost, waits)
		}
	}
}
