package gossip

import (
	"slices"
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip/wire"
)

// nodesOf are some that have met, and a clock.
type nodesOf struct {
	testing.TB
	list []*Node
	now  stint.Instant
	cut  bool // all that they tell is lost
}

func newNodes(t testing.TB, n int) *nodesOf {
	f := &nodesOf{TB: t, now: stint.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))}
	for i := range n {
		f.list = append(f.list, NewNode(Options{Seed: uint64(11 + i)}))
	}
	return f
}

func (f *nodesOf) meet(a, b int) {
	f.list[a].AddPeer(f.list[b].id)
	f.list[b].AddPeer(f.list[a].id)
}

// send delivers the messages of a node, and the answers to it.
func (f *nodesOf) send(from int, list []Message) {
	for _, m := range list {
		for to, n := range f.list {
			if f.cut || to == from || m.To != 0 && m.To != n.id {
				continue
			}
			for _, answer := range n.Receive(m.Bytes, f.now) {
				f.list[from].Receive(answer.Bytes, f.now)
			}
		}
	}
}

func (f *nodesOf) run(intervals int) {
	for range intervals {
		for i, n := range f.list {
			f.send(i, n.Tick(f.now))
		}
		f.now = f.now.Add(DefaultInterval)
	}
}

func (f *nodesOf) take(at int, l *stint.Limit, cost uint32) stint.Decision {
	f.Helper()
	call := stint.Call{Takes: []stint.Take{{Key: "k", Limit: l, Cost: cost}}}
	if err := f.list[at].Decide(&call, f.now); err != nil {
		f.Fatal(err)
	}
	return call.Results[0]
}

// Who begins a new count, as the key was idle, and whose first news of it are lost together
// with those of another node, is not forgotten when the two compare what they know.
func TestBothNewsLost(t *testing.T) {
	l := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: 100 * time.Second, Burst: 100})
	f := newNodes(t, 2)
	f.meet(0, 1)
	f.run(20)
	f.take(0, l, 1)
	f.take(1, l, 1)
	f.run(20)
	f.cut = true
	for i := range 400 {
		if i%5 == 0 {
			f.take(1, l, 1) // so that this one does not forget the key
		}
		f.run(1)
	}
	if !f.take(0, l, 100).Allowed {
		t.Fatal("denied")
	}
	f.run(1)
	f.cut = false
	f.run(30)
	for i := range f.list {
		if left := f.take(i, l, 0).Remaining; left > 3 {
			t.Errorf("node %d has %d left of 100 three seconds after 100 were taken", i, left)
		}
	}
}

// Nodes that take long to answer tell a newcomer all the same, and one that missed something
// what that was; they are not asked all the time.
func TestSlowAnswers(t *testing.T) {
	l := stint.MustLimit(stint.Spec{Requests: 100, Per: 24 * time.Hour})
	const old, young = 0, 1
	for _, late := range []int{0, 5, 15, 40} {
		f := newNodes(t, 2)
		f.take(old, l, 30)
		f.meet(old, young)
		questions := 0
		arrives := make([][]Message, 1000) // answers, by interval
		run := func(from, to int) {
			for i := from; i < to; i++ {
				for _, m := range f.list[young].Tick(f.now) {
					if m.Bytes[1] == wire.KindRepair {
						questions++
					}
					arrives[i+late] = append(arrives[i+late], f.list[old].Receive(m.Bytes, f.now)...)
				}
				if news := f.list[old].Tick(f.now); !f.cut {
					f.send(old, news)
				}
				for _, m := range arrives[i] {
					f.list[young].Receive(m.Bytes, f.now)
				}
				f.now = f.now.Add(DefaultInterval)
			}
		}
		run(0, 300)
		if left := f.take(young, l, 0).Remaining; !f.list[young].Synced() || left != 70 || questions > 15 {
			t.Errorf("answers after %d intervals: a newcomer asked %d times, knows all: %v, of %d left", late, questions, f.list[young].Synced(), left)
		}
		f.cut, questions = true, 0
		f.take(old, l, 30)
		run(300, 450)
		f.cut = false
		run(450, 700)
		origin := f.list[young].session.origins[f.list[old].id]
		if left := f.take(young, l, 0).Remaining; origin.highest > origin.upTo || left != 40 || questions > 15 {
			t.Errorf("answers after %d intervals: asked %d times what was lost, %d left, and %+v", late, questions, left, origin)
		}
	}
}

// Of who left nothing is kept, also where an answer of his comes after that.
func TestLateAnswerOfWhoLeft(t *testing.T) {
	f := newNodes(t, 2)
	f.meet(0, 1)
	var answers []Message
	for len(answers) == 0 {
		for _, m := range f.list[1].Tick(f.now) {
			answers = append(answers, f.list[0].Receive(m.Bytes, f.now)...)
		}
		f.now = f.now.Add(DefaultInterval)
	}
	f.list[1].RemovePeer(f.list[0].id)
	for _, m := range answers {
		f.list[1].Receive(m.Bytes, f.now)
	}
	if k := &f.list[1].session; len(k.slow)+len(k.repairs) != 0 {
		t.Errorf("kept %v and %v", k.slow, k.repairs)
	}
}

// A node that has received only one message of a busy node, and none of those before, does not make
// a new node count all of that node's units as new.
func TestHistoryIsNoNews(t *testing.T) {
	l := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Second, Burst: 100})
	f := newNodes(t, 3)
	const new, young, busy = 0, 1, 2
	var last []Message
	for range 600 {
		f.take(busy, l, 5)
		last = f.list[busy].Tick(f.now)
		f.now = f.now.Add(DefaultInterval)
	}
	f.meet(young, busy)
	for _, m := range last {
		f.list[young].Receive(m.Bytes, f.now)
	}
	f.meet(new, young)
	for range 3 {
		for _, m := range f.list[new].Tick(f.now) {
			for _, answer := range f.list[young].Receive(m.Bytes, f.now) {
				f.list[new].Receive(answer.Bytes, f.now)
			}
		}
	}
	f.meet(new, busy)
	f.take(busy, l, 5)
	for _, m := range f.list[busy].Tick(f.now) {
		f.list[new].Receive(m.Bytes, f.now)
	}
	if d := f.take(new, l, 1); d.RetryAfter > time.Second {
		t.Errorf("denied for %v after a minute of half the rate", d.RetryAfter)
	}
}

// Counts of a limit of zero, which no node sends, are refused.
func TestNewsOfNothing(t *testing.T) {
	f := newNodes(t, 1)
	none := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 0, Per: 10 * time.Second})
	var w wire.Writer
	w.Begin(wire.KindReport, 77)
	w.Number(1)
	w.Delta(&wire.Delta{Limit: none, Key: "k", Count: wire.Count{Born: 1, Number: 1, Taken: 1}, Added: 1})
	f.list[0].Receive(w.Data, f.now)
	f.run(200)
	if st := f.list[0].Stats(); st.Damaged != 1 || st.Keys != 0 {
		t.Errorf("%+v", st)
	}
}

// A message in the format of another release is counted, and told of once for each peer; it
// changes nothing.
func TestForeign(t *testing.T) {
	for _, test := range []struct {
		name            string
		change          func(b []byte) []byte
		foreign, damage uint64
		told            int
	}{
		{"of this release", func(b []byte) []byte { return b }, 0, 0, 0},
		{"of an earlier release", func(b []byte) []byte { b[0]--; return b }, 3, 0, 1},
		{"of a later one", func(b []byte) []byte { b[0]++; return b }, 3, 0, 1},
		{"of a kind that a later one has", func(b []byte) []byte { b[0], b[1] = 1, wire.KindReply+1; return b }, 3, 0, 1},
		{"of somebody who is no peer", func(b []byte) []byte { b[0]++; b[2]++; return b }, 3, 0, 0},
		{"cut short", func(b []byte) []byte { return b[:11] }, 0, 3, 0},
	} {
		f := newNodes(t, 2)
		f.meet(0, 1)
		var told []uint64
		f.list[0].foreign = func(peer uint64) { told = append(told, peer) }
		list := f.list[1].Tick(f.now)
		question := list[slices.IndexFunc(list, func(m Message) bool { return m.Bytes[1] == wire.KindRepair })].Bytes
		for range 3 {
			out := f.list[0].Receive(test.change(slices.Clone(question)), f.now)
			if (len(out) > 0) != (test.foreign+test.damage == 0) {
				t.Errorf("%s: answered by %+v", test.name, out)
			}
		}
		st := f.list[0].Stats()
		if st.Foreign != test.foreign || st.Damaged != test.damage || len(told) != test.told {
			t.Errorf("%s: %d foreign and %d damaged, told of %v", test.name, st.Foreign, st.Damaged, told)
		}
	}
	f := newNodes(t, 2)
	f.meet(0, 1)
	times := 0
	f.list[0].foreign = func(uint64) { times++ }
	later := func() { f.list[0].Receive([]byte{9, wire.KindBeat, byte(f.list[1].id), 0, 0, 0, 0, 0, 0, 0}, f.now) }
	later()
	f.list[0].RemovePeer(f.list[1].id)
	f.list[0].AddPeer(f.list[1].id)
	later()
	if times != 2 {
		t.Errorf("told %d times of who came twice", times)
	}
}

// What stands behind the part of a message that cannot be read is asked for.
func TestDamagedBehind(t *testing.T) {
	f := newNodes(t, 2)
	f.meet(0, 1)
	f.run(20)
	l := stint.MustLimit(stint.Spec{Requests: 10, Per: stint.MaxPer, CarryDebt: true})
	keys := []stint.Key{"a", "b", "c"}
	look := func(at int, cost uint32) (left []int64) {
		for _, key := range keys {
			call := stint.Call{Takes: []stint.Take{{Key: key, Limit: l, Cost: cost}}}
			if err := f.list[at].Decide(&call, f.now); err != nil {
				t.Fatal(err)
			}
			left = append(left, call.Results[0].Remaining)
		}
		return left
	}
	look(1, 4)
	for _, m := range f.list[1].Tick(f.now) {
		f.list[0].Receive(m.Bytes[:len(m.Bytes)-2], f.now)
	}
	f.run(20)
	if left := look(0, 0); !slices.Equal(left, []int64{6, 6, 6}) || f.list[0].Stats().Damaged != 1 {
		t.Errorf("%d are left of %s, and %d messages were damaged", left, keys, f.list[0].Stats().Damaged)
	}
}
