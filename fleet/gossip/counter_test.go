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

// However long a node is missing, the others keep few periods of a key, and none when it is back.
func TestFewPeriods(t *testing.T) {
	l := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: 10 * time.Second, Burst: 100})
	f := newNodes(t, 2)
	f.meet(0, 1)
	f.take(0, l, 1)
	f.run(20)
	most := func() (n int) {
		for at := range f.list {
			for _, c := range f.list[at].shardOf(l.Algorithm(), "k").keys[name{"k", l.Algorithm()}].all() {
				n = max(n, len(c.marks))
			}
		}
		return n
	}
	run := func(intervals int) {
		for range intervals {
			f.take(0, l, 1)
			f.take(1, l, 1)
			f.run(1)
		}
	}
	f.cut = true
	run(600)
	if n := most(); n < maxMarks/2 || n > maxMarks {
		t.Errorf("%d periods after a minute", n)
	}
	f.cut = false
	run(10)
	f.run(2*shards + 20) // without takes, which begin periods
	if n := most(); n > 0 {
		t.Errorf("%d periods a quarter of a minute after the nodes met again", n)
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
