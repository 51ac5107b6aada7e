package gossip

import (
	"fmt"
	"slices"
	"testing"

	"stint"
	"stint/fleet/gossip/wire"
	"stint/internal/testkit"
)

// many is a number of keys whose counts do not fit into one message.
const many = 6000

func keyOf(i int) stint.Key { return stint.Key(fmt.Sprintf("api/user=customer-%0100d", i)) }

// takeMany takes of many keys, of each another number of units.
func (f *nodesOf) takeMany(at int, l *stint.Limit) {
	f.Helper()
	for i := range many {
		call := stint.Call{Takes: []stint.Take{{Key: keyOf(i), Limit: l, Cost: uint32(1 + i%50)}}}
		if err := f.list[at].Decide(&call, f.now); err != nil || !call.Results[0].Allowed {
			f.Fatal(call.Results, err)
		}
	}
}

// wrong returns of how many of the keys a node does not know what was taken.
func (f *nodesOf) wrong(at int, l *stint.Limit) (n int) {
	f.Helper()
	for i := range many {
		call := stint.Call{Takes: []stint.Take{{Key: keyOf(i), Limit: l}}}
		if err := f.list[at].Decide(&call, f.now); err != nil {
			f.Fatal(err)
		}
		if call.Results[0].Remaining != l.Capacity()-int64(1+i%50) {
			n++
		}
	}
	return n
}

// An answer that is too long for one message is split. The receiver uses it once all parts have
// arrived, in any order and however often, and not before. It asks again for a lost part.
func TestLongAnswer(t *testing.T) {
	testkit.OneGoroutine(t)
	day := stint.MustLimit(stint.Spec{Requests: 100, Per: stint.MaxPer, CarryDebt: true})
	for _, row := range []struct {
		name  string
		order func(parts []Message) []Message
		whole bool // at once
	}{
		{"as they were sent", func(parts []Message) []Message { return parts }, true},
		{"the last one first", func(parts []Message) []Message { slices.Reverse(parts); return parts }, true},
		{"each twice", func(parts []Message) []Message { return append(parts, parts...) }, true},
		{"without the first", func(parts []Message) []Message { return parts[1:] }, false},
		{"without the last", func(parts []Message) []Message { return parts[:len(parts)-1] }, false},
		{"the first twice, without the second", func(parts []Message) []Message { return append(parts[:1:1], append(parts[:1:1], parts[2:]...)...) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newNodes(t, 2)
			const old, fresh = 0, 1
			f.takeMany(old, day)
			f.list[old].Tick(f.now) // nobody hears it
			f.meet(old, fresh)
			for _, question := range f.list[fresh].Tick(f.now) {
				parts := f.list[old].Receive(question.Bytes, f.now)
				if len(parts) < 3 || !parts[0].Bulk || len(parts[0].Bytes) > wire.MaxBulk+1024 {
					t.Fatalf("an answer of %d parts, the first of %d bytes", len(parts), len(parts[0].Bytes))
				}
				for _, m := range row.order(parts) {
					f.list[fresh].Receive(m.Bytes, f.now)
				}
			}
			if f.list[fresh].Synced() != row.whole || row.whole && f.wrong(fresh, day) > 0 {
				t.Errorf("whole %v, %d keys are not known", f.list[fresh].Synced(), f.wrong(fresh, day))
			}
			f.run(20)
			if !f.list[fresh].Synced() || f.wrong(fresh, day) > 0 {
				t.Errorf("after 20 intervals: whole %v, %d keys are not known", f.list[fresh].Synced(), f.wrong(fresh, day))
			}
		})
	}
}

// What was taken of many keys in one interval is told by several messages; those that are
// lost are asked for, and the answer is as long.
func TestLongNews(t *testing.T) {
	day := stint.MustLimit(stint.Spec{Requests: 100, Per: stint.MaxPer, CarryDebt: true})
	for lost := range 3 {
		f := newNodes(t, 2)
		f.meet(0, 1)
		f.run(20)
		f.takeMany(0, day)
		list := f.list[0].Tick(f.now)
		if len(list) < 3 || !list[0].Bulk {
			t.Fatalf("%d messages", len(list))
		}
		f.send(0, slices.Delete(list, lost, lost+1))
		before := f.list[1].Stats().ReceivedBytes
		f.run(20)
		if wrong := f.wrong(1, day); wrong > 0 {
			t.Errorf("message %d was lost: %d keys are not known", lost, wrong)
		}
		if again := f.list[1].Stats().ReceivedBytes - before; again < wire.MaxBulk/2 {
			t.Errorf("message %d was lost: %d bytes were told again", lost, again)
		}
	}
}
